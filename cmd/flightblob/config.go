package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// configFlag names the file that settings may come from.
const configFlag = "config"

// envPrefix starts the environment variables of settings.
const envPrefix = "FLIGHTBLOB_"

func envName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// fillFlags gives every flag that the command line left alone its value from
// the environment or the config file. It is the only place where settings come
// from anywhere but the command line.
func fillFlags(cmd *cobra.Command, env environment) error {
	if f := cmd.Flags().Lookup(configFlag); f != nil && !f.Changed {
		if v, ok := env(envName(configFlag)); ok && v != "" {
			if err := f.Value.Set(v); err != nil {
				return usagef("%s: %w", envName(configFlag), err)
			}
		}
	}
	file, err := readConfig(cmd)
	if err != nil {
		return err
	}
	var failed error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if failed != nil || f.Changed || f.Name == configFlag || f.Name == "help" || f.Name == "version" {
			return
		}
		if v, ok := env(envName(f.Name)); ok && v != "" {
			failed = setFlag(f, envName(f.Name), splitFor(f, v))
		} else if values, ok := file[f.Name]; ok {
			failed = setFlag(f, "config file: "+f.Name, values)
		}
	})
	return failed
}

// splitFor takes an environment value apart for a flag that may be repeated.
func splitFor(f *pflag.Flag, v string) []string {
	if _, many := f.Value.(pflag.SliceValue); many {
		return strings.Split(v, ",")
	}
	return []string{v}
}

func setFlag(f *pflag.Flag, from string, values []string) error {
	var err error
	if many, ok := f.Value.(pflag.SliceValue); ok {
		err = many.Replace(values)
	} else if len(values) != 1 {
		err = errors.New("one value is expected, not a list")
	} else {
		err = f.Value.Set(values[0])
	}
	if err != nil {
		return usagef("%s: %w", from, err)
	}
	// So that a command can tell a setting from a default.
	f.Changed = true
	return nil
}

// readConfig reads the settings of a command from its config file, those of
// the command's own table over those on top.
func readConfig(cmd *cobra.Command) (map[string][]string, error) {
	f := cmd.Flags().Lookup(configFlag)
	if f == nil || f.Value.String() == "" {
		return nil, nil
	}
	path := f.Value.String()
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, usagef("config file %s does not exist", path)
	}
	if err != nil {
		return nil, fmt.Errorf("config file: %w", err)
	}
	var raw map[string]any
	if err := toml.Unmarshal(text, &raw); err != nil {
		return nil, usagef("config file %s: %w", path, err)
	}
	commands := cmd.Root().Commands()
	top, own := map[string][]string{}, map[string][]string{}
	for key, value := range raw {
		table, ok := value.(map[string]any)
		if !ok {
			if err := addSetting(top, path, key, value, family(commands...)); err != nil {
				return nil, err
			}
			continue
		}
		i := slices.IndexFunc(commands, func(c *cobra.Command) bool { return c.Name() == key })
		if i < 0 {
			return nil, usagef("config file %s: there is no command %q", path, key)
		}
		into := map[string][]string{} // checked, though not for this command
		if slices.Contains(family(commands[i]), cmd) {
			into = own
		}
		for key, value := range table {
			if err := addSetting(into, path, key, value, family(commands[i])); err != nil {
				return nil, err
			}
		}
	}
	maps.Copy(top, own)
	return top, nil
}

// family lists commands with those below them.
func family(commands ...*cobra.Command) []*cobra.Command {
	var all []*cobra.Command
	for _, c := range commands {
		all = append(append(all, c), family(c.Commands()...)...)
	}
	return all
}

// addSetting takes one key of a config file; some of the commands must have it
// as a flag.
func addSetting(into map[string][]string, path, key string, value any, commands []*cobra.Command) error {
	if !slices.ContainsFunc(commands, func(c *cobra.Command) bool { return c.Flags().Lookup(key) != nil }) {
		return usagef("config file %s: unknown key %q; keys are the names of flags", path, key)
	}
	list, ok := value.([]any)
	if !ok {
		list = []any{value}
	}
	values := make([]string, len(list))
	for i, v := range list {
		switch v := v.(type) {
		case string:
			values[i] = v
		case bool:
			values[i] = strconv.FormatBool(v)
		case int64:
			values[i] = strconv.FormatInt(v, 10)
		default:
			return usagef("config file %s: %s is neither text, number, true, false nor a list of text", path, key)
		}
	}
	into[key] = values
	return nil
}
