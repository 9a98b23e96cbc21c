package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const events = `{"Action":"output","Package":"p","Test":"TestA/x","Output":"x says\n"}
{"Action":"fail","Package":"p","Test":"TestA/x"}
{"Action":"output","Package":"p","Test":"TestA/y","Output":"y says\n"}
{"Action":"pass","Package":"p","Test":"TestA/y"}
{"Action":"skip","Package":"p","Test":"TestB"}
{"Action":"pass","Package":"p","Test":"TestC"}
{"Action":"output","Package":"p","Output":"FAIL p\n"}
{"Action":"fail","Package":"p"}
`

func TestFollow(t *testing.T) {
	t.Parallel()
	save := filepath.Join(t.TempDir(), "events.json")
	var out strings.Builder
	err := follow(strings.NewReader(events), &out, save)
	if err == nil || out.String() != "x says\nFAIL p\n" {
		t.Fatalf("got error %v and output %q", err, out.String())
	}
	if saved, err := os.ReadFile(save); err != nil || string(saved) != events {
		t.Fatalf("saved %q, %v", saved, err)
	}
	if err := follow(strings.NewReader(""), &out, save); err == nil {
		t.Fatal("an empty run passed")
	}
}

func TestTally(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "events.json")
	if err := os.WriteFile(path, []byte(events), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := tally(&out, []string{path}); err == nil || out.String() != "2 passed, 1 failed, 1 skipped\n" {
		t.Fatalf("got error %v and output %q", err, out.String())
	}
}
