// Package spelling helps errors to say what they mean: the names that somebody
// may have meant, and counts of things.
package spelling

import (
	"slices"
	"strings"
)

// Nearest gives at most n names of have, the closest to name first. limit is
// the largest number of edits that still counts as close; below 0 all do. Case
// does not matter, and only the first 64 bytes of each name are looked at.
func Nearest(name string, have []string, n, limit int) []string {
	type candidate struct {
		name     string
		distance int
	}
	var near []candidate
	for _, h := range have {
		d := distance(strings.ToLower(name), strings.ToLower(h))
		if limit < 0 || d <= limit {
			near = append(near, candidate{h, d})
		}
	}
	slices.SortStableFunc(near, func(a, b candidate) int { return a.distance - b.distance })
	names := make([]string, 0, n)
	for _, c := range near[:min(n, len(near))] {
		names = append(names, c.name)
	}
	return names
}

// distance is the edit distance of the first 64 bytes of two names.
func distance(a, b string) int {
	a, b = a[:min(len(a), 64)], b[:min(len(b), 64)]
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
