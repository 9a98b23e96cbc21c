package manifest

import (
	"encoding/json"
	"fmt"
	"time"
)

// Encode makes the file of the tag, in the form of section 6.4.
func (t *Tag) Encode() ([]byte, error) {
	return refFile(struct {
		Branch       *string           `json:"branch"`
		Version      uint64            `json:"version"`
		CreatedAt    *time.Time        `json:"createdAt,omitempty"`
		UpdatedAt    *time.Time        `json:"updatedAt,omitempty"`
		ManifestSize uint64            `json:"manifestSize"`
		Metadata     map[string]string `json:"metadata"`
	}{branchOrNull(t.Branch), t.Version, timeOrNone(t.CreatedAt), timeOrNone(t.UpdatedAt), t.ManifestSize, cloneMap(t.Metadata)})
}

// Encode makes the file of the branch, in the form of section 6.4.
func (b *Branch) Encode() ([]byte, error) {
	type identifier struct {
		Mapping [][2]any `json:"version_mapping"`
	}
	id := identifier{Mapping: [][2]any{}}
	for _, p := range b.Identifier {
		id.Mapping = append(id.Mapping, [2]any{p.ParentVersion, p.ID})
	}
	return refFile(struct {
		ParentBranch  *string           `json:"parentBranch"`
		Identifier    identifier        `json:"identifier"`
		ParentVersion uint64            `json:"parentVersion"`
		CreateAt      int64             `json:"createAt"`
		ManifestSize  uint64            `json:"manifestSize"`
		Metadata      map[string]string `json:"metadata"`
	}{branchOrNull(b.Parent), id, b.ParentVersion, b.CreatedAt.Unix(), b.ManifestSize, cloneMap(b.Metadata)})
}

func refFile(content any) ([]byte, error) {
	data, err := json.MarshalIndent(content, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("manifest: encode a reference: %w", err)
	}
	return data, nil
}

// branchOrNull spells the main line as null.
func branchOrNull(name string) *string {
	if name == "" {
		return nil
	}
	return &name
}

func timeOrNone(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
