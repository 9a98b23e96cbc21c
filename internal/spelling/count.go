package spelling

import "strconv"

// Count writes a number of things: 1 row, 2 rows.
func Count[N int | int64 | uint64](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.FormatInt(int64(n), 10) + " " + what + "s"
}
