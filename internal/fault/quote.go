package fault

import "strconv"

// Quote quotes a value that was seen, for the text of an error, and cuts it to
// a readable length.
func Quote(text string) string {
	const most = 128
	if len(text) <= most {
		return strconv.Quote(text)
	}
	cut := most
	for cut > most-4 && text[cut]&0xC0 == 0x80 { // not inside a character
		cut--
	}
	return strconv.Quote(text[:cut]) + "…"
}
