// Package outcome reads what test runners wrote down: the event stream of
// "go test -json" and the JUnit files of pytest, as one list of tests that
// ended and how.
package outcome

import (
	"bufio"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// How a test ended.
type How uint8

// The ways a test can end.
const (
	Passed How = iota
	Failed
	Skipped
)

// Test is one test or subtest that ended.
type Test struct {
	Package string // Go package, or file of a pytest case; empty is legal
	Name    string // as the runner prints it, subtests with a slash
	Sub     bool   // a Go subtest, or a pytest case of any kind
	How     How
}

// event is one line of "go test -json".
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

// Watcher is told about events as they arrive. Nil functions are not called.
type Watcher struct {
	Output func(pkg, test, text string)   // a line that a test or package printed
	Ended  func(pkg, test, action string) // pass, fail or skip; test is empty for the package
}

// Go reads an event stream of "go test -json" until its end. Lines that are no
// events, such as compiler messages, are handed to w.Output without a package.
func Go(r io.Reader, w Watcher) ([]Test, error) {
	var tests []Test
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			tests = one(line, tests, w)
		}
		if errors.Is(err, io.EOF) {
			return tests, nil
		}
		if err != nil {
			return tests, fmt.Errorf("outcome: read events: %w", err)
		}
	}
}

func one(line string, tests []Test, w Watcher) []Test {
	var e event
	if json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
		if w.Output != nil {
			w.Output("", "", line)
		}
		return tests
	}
	how, ended := map[string]How{"pass": Passed, "fail": Failed, "skip": Skipped}[e.Action]
	switch {
	case (e.Action == "output" || e.Action == "build-output") && w.Output != nil:
		w.Output(e.Package, e.Test, e.Output)
	case ended:
		if w.Ended != nil {
			w.Ended(e.Package, e.Test, e.Action)
		}
		if e.Test != "" {
			tests = append(tests, Test{e.Package, e.Test, strings.Contains(e.Test, "/"), how})
		}
	}
	return tests
}

// suites is the outer element of a JUnit file; pytest writes one.
type suites struct {
	Suites []struct {
		Cases []struct {
			Class   string    `xml:"classname,attr"`
			Name    string    `xml:"name,attr"`
			Failure *struct{} `xml:"failure"`
			Error   *struct{} `xml:"error"`
			Skipped *struct{} `xml:"skipped"`
		} `xml:"testcase"`
	} `xml:"testsuite"`
}

// JUnit reads a JUnit file as pytest writes it. An expected failure counts as
// skipped, as pytest says in the file.
func JUnit(r io.Reader) ([]Test, error) {
	var file suites
	if err := xml.NewDecoder(r).Decode(&file); err != nil {
		return nil, fmt.Errorf("outcome: read JUnit file: %w", err)
	}
	var tests []Test
	for _, suite := range file.Suites {
		for _, c := range suite.Cases {
			how := Passed
			switch {
			case c.Failure != nil || c.Error != nil:
				how = Failed
			case c.Skipped != nil:
				how = Skipped
			}
			tests = append(tests, Test{c.Class, c.Name, true, how})
		}
	}
	return tests, nil
}

// Files reads outcome files by their extension: .json are event streams, .xml
// are JUnit files. A file that is absent is an error.
func Files(paths []string) ([]Test, error) {
	var all []Test
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("outcome: %w", err)
		}
		var tests []Test
		if filepath.Ext(path) == ".xml" {
			tests, err = JUnit(f)
		} else {
			tests, err = Go(f, Watcher{})
		}
		if closed := f.Close(); err == nil {
			err = closed
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, tests...)
	}
	return all, nil
}
