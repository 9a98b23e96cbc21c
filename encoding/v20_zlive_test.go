package encoding

import (
	"os"
	"path/filepath"
	"testing"
)

func TestZLive20(t *testing.T) {
	files, _ := filepath.Glob(os.Getenv("V20LIVE") + "/*.lance")
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) { checkFile20(t, path) })
	}
}
