package manifest

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/flightblob/flightblob/internal/fault"
)

// Folders of the main table for tags and branches, section 6.4.
const (
	TagsDir     = "_refs/tags"
	BranchesDir = "_refs/branches"
	TreeDir     = "tree" // branches live below it, by name
	refSuffix   = ".json"
)

// MainBranch is how users name the main line; manifests and tags spell it "".
const MainBranch = "main"

// Tag names one version of one branch.
type Tag struct {
	Branch       string // "" = main
	Version      uint64
	CreatedAt    time.Time // zero if the file has none
	UpdatedAt    time.Time
	ManifestSize uint64 // 0 = unknown
	Metadata     map[string]string
}

// Branch is a line of versions that starts at a version of its parent.
type Branch struct {
	Parent        string // "" = main
	ParentVersion uint64
	Identifier    []BranchPoint // the way down from main
	CreatedAt     time.Time
	ManifestSize  uint64
	Metadata      map[string]string
}

// BranchPoint is one step of a branch's descent: where a line left its parent,
// and the id of the line that began there. A branch descends from another if
// the other's list is a prefix of its own.
type BranchPoint struct {
	ParentVersion uint64
	ID            string // 32 hex digits
}

// DecodeTag reads a file of _refs/tags.
func DecodeTag(data []byte) (*Tag, error) {
	var in struct {
		Branch       *string                    `json:"branch"`
		Version      *uint64                    `json:"version"`
		CreatedAt    *time.Time                 `json:"createdAt"`
		UpdatedAt    *time.Time                 `json:"updatedAt"`
		ManifestSize uint64                     `json:"manifestSize"`
		Metadata     map[string]json.RawMessage `json:"metadata"`
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return nil, fault.Corruptf(-1, "manifest: not a tag: %v", err)
	}
	if in.Version == nil {
		return nil, fault.Corruptf(-1, "manifest: the tag has no version")
	}
	t := &Tag{Version: *in.Version, ManifestSize: in.ManifestSize, Metadata: refMetadata(in.Metadata)}
	var err error
	if t.Branch, err = refBranch(in.Branch); err != nil {
		return nil, err
	}
	if in.CreatedAt != nil {
		t.CreatedAt = in.CreatedAt.UTC()
	}
	if in.UpdatedAt != nil {
		t.UpdatedAt = in.UpdatedAt.UTC()
	}
	return t, nil
}

// DecodeBranch reads a file of _refs/branches.
func DecodeBranch(data []byte) (*Branch, error) {
	var in struct {
		ParentBranch  *string                    `json:"parentBranch"`
		ParentVersion *uint64                    `json:"parentVersion"`
		CreateAt      int64                      `json:"createAt"`
		ManifestSize  uint64                     `json:"manifestSize"`
		Metadata      map[string]json.RawMessage `json:"metadata"`
		Identifier    struct {
			Mapping [][2]json.RawMessage `json:"version_mapping"`
		} `json:"identifier"`
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return nil, fault.Corruptf(-1, "manifest: not a branch: %v", err)
	}
	if in.ParentVersion == nil {
		return nil, fault.Corruptf(-1, "manifest: the branch has no parent version")
	}
	b := &Branch{
		ParentVersion: *in.ParentVersion,
		CreatedAt:     time.Unix(in.CreateAt, 0).UTC(),
		ManifestSize:  in.ManifestSize,
		Metadata:      refMetadata(in.Metadata),
	}
	var err error
	if b.Parent, err = refBranch(in.ParentBranch); err != nil {
		return nil, err
	}
	for _, pair := range in.Identifier.Mapping {
		var p BranchPoint
		if err := json.Unmarshal(pair[0], &p.ParentVersion); err != nil {
			return nil, fault.Corruptf(-1, "manifest: the branch's identifier: %v", err)
		}
		if err := json.Unmarshal(pair[1], &p.ID); err != nil {
			return nil, fault.Corruptf(-1, "manifest: the branch's identifier: %v", err)
		}
		b.Identifier = append(b.Identifier, p)
	}
	return b, nil
}

// refBranch reads a branch name inside a ref; it becomes part of paths.
func refBranch(name *string) (string, error) {
	if name == nil || *name == MainBranch {
		return "", nil
	}
	if err := CheckBranchName(*name); err != nil {
		return "", fault.Corruptf(-1, "manifest: a ref names an impossible branch: %v", err)
	}
	return *name, nil
}

// refMetadata keeps text values as they are and others as their JSON.
func refMetadata(in map[string]json.RawMessage) map[string]string {
	out := make(map[string]string, len(in))
	for k, raw := range in {
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			text = string(raw)
		}
		out[k] = text
	}
	return out
}

// DecodeHint reads latest_version_hint.json. It is advice: false means that
// the folder has to be listed.
func DecodeHint(data []byte) (version uint64, ok bool) {
	var in struct {
		Version *uint64 `json:"version"`
	}
	if err := json.Unmarshal(data, &in); err != nil || in.Version == nil || IsDetached(*in.Version) {
		return 0, false
	}
	return *in.Version, true
}

// TagPath is the path of a tag's file below the main table's root.
func TagPath(name string) (string, error) {
	if err := CheckTagName(name); err != nil {
		return "", err
	}
	return TagsDir + "/" + name + refSuffix, nil
}

// BranchPath is the path of a branch's file below the main table's root; a
// slash in the name is written %2F.
func BranchPath(name string) (string, error) {
	if err := CheckBranchName(name); err != nil {
		return "", err
	}
	return BranchesDir + "/" + strings.ReplaceAll(name, "/", "%2F") + refSuffix, nil
}

// BranchRoot is the folder of a branch below the main table's root.
func BranchRoot(name string) (string, error) {
	if err := CheckBranchName(name); err != nil {
		return "", err
	}
	return TreeDir + "/" + name, nil
}

// ParseTagFile gives the tag that a file of _refs/tags is named after.
func ParseTagFile(file string) (name string, ok bool) {
	name, ok = strings.CutSuffix(file, refSuffix)
	return name, ok && CheckTagName(name) == nil
}

// ParseBranchFile gives the branch that a file of _refs/branches is named after.
func ParseBranchFile(file string) (name string, ok bool) {
	name, ok = strings.CutSuffix(file, refSuffix)
	name = strings.ReplaceAll(name, "%2F", "/")
	return name, ok && CheckBranchName(name) == nil
}

// CheckTagName says what is wrong with a tag name, as fault.Invalid.
func CheckTagName(name string) error {
	reason := refFault(name)
	if reason == "" && (strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".")) {
		reason = "it begins or ends with a dot"
	}
	if reason == "" {
		return nil
	}
	return fault.New(fault.Invalid, "manifest: %q is no tag name: %s", name, reason)
}

// CheckBranchName says what is wrong with a branch name, as fault.Invalid.
func CheckBranchName(name string) error {
	reason := ""
	if name == MainBranch {
		reason = "main is reserved"
	}
	for part := range strings.SplitSeq(name, "/") {
		if reason == "" {
			reason = refFault(part)
		}
		if reason == "" && part == "." {
			reason = "a part of it is a dot"
		}
	}
	if reason == "" {
		return nil
	}
	return fault.New(fault.Invalid, "manifest: %q is no branch name: %s", name, reason)
}

// refFault judges one path segment of a name: letters of any script, digits,
// dots, hyphens and underscores.
func refFault(part string) string {
	switch {
	case part == "":
		return "it has an empty part"
	case strings.Contains(part, ".."):
		return "it holds two dots in a row"
	case strings.HasSuffix(part, ".lock"):
		return "it ends in .lock"
	}
	for _, r := range part {
		if r == unicode.ReplacementChar || !unicode.IsLetter(r) && !unicode.IsNumber(r) && !strings.ContainsRune(".-_", r) {
			return fmt.Sprintf("it holds %q; letters, digits, dots, hyphens and underscores are allowed", r)
		}
	}
	return ""
}
