// Command verdict stands behind "go test -json" and at the end of a run.
//
//	go test -json ./… | verdict -save FILE     saves the events, shows packages and the output of failed tests
//	verdict -count RESULTS…                    prints "N passed, N failed[, N skipped]"
//
// It ends with status 1 when a test or package failed, or when nothing ran.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/flightblob/flightblob/tools/internal/outcome"
)

func main() {
	save := flag.String("save", "", "file for the events read from standard input")
	count := flag.Bool("count", false, "count the outcomes in the files named")
	flag.Parse()
	var err error
	if *count {
		err = tally(os.Stdout, flag.Args())
	} else {
		err = follow(os.Stdin, os.Stdout, *save)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "verdict:", err)
		os.Exit(1)
	}
}

// follow shows a run as it goes: one line a package, and what failed tests
// printed.
func follow(in io.Reader, out io.Writer, save string) error {
	file, err := os.Create(save)
	if err != nil {
		return err
	}
	printed := map[string]*strings.Builder{} // output by package and test, kept until it ended
	failed, ran := 0, 0
	key := func(pkg, test string) string { return pkg + " " + test }
	_, err = outcome.Go(io.TeeReader(in, file), outcome.Watcher{
		Output: func(pkg, test, text string) {
			if pkg == "" {
				fmt.Fprint(out, text)
				return
			}
			k := key(pkg, test)
			if printed[k] == nil {
				printed[k] = &strings.Builder{}
			}
			printed[k].WriteString(text)
		},
		Ended: func(pkg, test, action string) {
			k := key(pkg, test)
			text := printed[k]
			delete(printed, k)
			ran++
			if action == "fail" {
				failed++
			}
			if text != nil && (action == "fail" || test == "") && !strings.Contains(text.String(), "[no test files]") {
				fmt.Fprint(out, text)
			}
		},
	})
	if closed := file.Close(); err == nil {
		err = closed
	}
	switch {
	case err != nil:
		return err
	case ran == 0:
		return errors.New("no test ran")
	case failed > 0:
		return fmt.Errorf("%d tests and packages failed", failed)
	}
	return nil
}

// tally prints the one line that sums a run up. Go tests that hold subtests
// are not counted beside them.
func tally(out io.Writer, files []string) error {
	tests, err := outcome.Files(files)
	if err != nil {
		return err
	}
	holders := map[string]bool{}
	for _, t := range tests {
		for i, c := range t.Name {
			if c == '/' {
				holders[t.Package+" "+t.Name[:i]] = true
			}
		}
	}
	var counts [3]int
	for _, t := range tests {
		if !holders[t.Package+" "+t.Name] || t.How == outcome.Failed {
			counts[t.How]++
		}
	}
	line := fmt.Sprintf("%d passed, %d failed", counts[outcome.Passed], counts[outcome.Failed])
	if n := counts[outcome.Skipped]; n > 0 {
		line += fmt.Sprintf(", %d skipped", n)
	}
	fmt.Fprintln(out, line)
	if counts[outcome.Failed] > 0 || counts[outcome.Passed] == 0 {
		return errors.New("the run failed")
	}
	return nil
}
