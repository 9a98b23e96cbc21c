// Command rules tells which rules of the Blob v2 behaviour sheet no test
// proves. A rule is proved when a passing subtest bears its identifier in its
// name, such as "RES-3 inline reads the data file".
//
//	rules [-check] RESULTS…
//
// RESULTS are event streams of "go test -json" (.json) and JUnit files (.xml).
// Without -check it prints the rules without a proof. With -check it compares
// them with the list of rules known to be unproved and fails when the list
// would have to grow, and when an entry is stale.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/flightblob/flightblob/tools/internal/outcome"
)

func main() {
	check := flag.Bool("check", false, "compare with the list of rules known to be unproved")
	all := flag.String("rules", "conformance/rules.txt", "file with all identifiers")
	known := flag.String("known", "conformance/rules-untested.txt", "file with the identifiers known to be unproved")
	flag.Parse()
	if err := run(*all, *known, *check, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "rules:", err)
		os.Exit(1)
	}
}

func run(all, known string, check bool, results []string) error {
	rules, err := list(all)
	if err != nil {
		return err
	}
	tests, err := outcome.Files(results)
	if err != nil {
		return err
	}
	missing := unproved(rules, tests)
	if !check {
		fmt.Printf("%d of %d rules have no test:\n", len(missing), len(rules))
		for _, id := range missing {
			fmt.Println(id)
		}
		return nil
	}
	expected, err := list(known)
	if err != nil {
		return err
	}
	return compare(rules, missing, expected, known)
}

// list reads identifiers, one a line; what follows a blank and lines that
// begin with # are for people.
func list(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var ids []string
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		id, _, _ := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		if id != "" && !strings.HasPrefix(id, "#") {
			ids = append(ids, id)
		}
	}
	return ids, lines.Err()
}

// identifier finds a rule's name in a test's name, where blanks may have
// become underscores.
var identifier = regexp.MustCompile(`(?:^|[^A-Za-z0-9])([A-Z]{2,4}-[0-9]+)`)

// identifiers gives every rule that a test's name bears.
func identifiers(name string) []string {
	var ids []string
	for _, found := range identifier.FindAllStringSubmatch(name, -1) {
		ids = append(ids, found[1])
	}
	return ids
}

// unproved gives the rules that no passing subtest bears, in the order of
// rules. A rule that a failing test bears is unproved, whatever else passes.
func unproved(rules []string, tests []outcome.Test) []string {
	passed, failed := map[string]bool{}, map[string]bool{}
	for _, t := range tests {
		if !t.Sub {
			continue
		}
		for _, id := range identifiers(t.Name) {
			switch t.How {
			case outcome.Passed:
				passed[id] = true
			case outcome.Failed:
				failed[id] = true
			case outcome.Skipped: // proves nothing
			}
		}
	}
	var missing []string
	for _, id := range rules {
		if !passed[id] || failed[id] {
			missing = append(missing, id)
		}
	}
	return missing
}

func compare(rules, missing, expected []string, file string) error {
	var wrong []string
	for _, id := range expected {
		switch {
		case !slices.Contains(rules, id):
			wrong = append(wrong, fmt.Sprintf("%s names %s, which is no rule", file, id))
		case !slices.Contains(missing, id):
			wrong = append(wrong, fmt.Sprintf("%s has a test now: take it out of %s", id, file))
		}
	}
	for _, id := range missing {
		if !slices.Contains(expected, id) {
			wrong = append(wrong, fmt.Sprintf("%s has no passing test", id))
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%s", strings.Join(wrong, "\nrules: "))
	}
	fmt.Printf("%d of %d rules have a passing test\n", len(rules)-len(missing), len(rules))
	return nil
}
