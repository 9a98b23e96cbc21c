package bucket

import (
	"net/url"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/flightblob/flightblob/objstore"
)

const (
	redacted = "[redacted]"
	// mostText bounds what is kept of a driver's message, in bytes.
	mostText = 400
)

var (
	webURL = regexp.MustCompile(`(?i)\bhttps?://[^\s"'<>]+`)
	bearer = regexp.MustCompile(`(?i)\b(bearer|basic|sharedkey|sharedkeylite)\s+[^\s,;"']+`)
	// named catches name=value and name: value of what carries credentials.
	named  = regexp.MustCompile(`(?i)\b((?:x-(?:amz|goog|ms)-)?(?:authorization|signature|sig|credential|security-token|access[-_]?key(?:[-_]?id)?|secret(?:[-_]access[-_]key)?|session[-_]?token|account[-_]?key|private[-_]?key(?:[-_]id)?|token|password))(["']?\s*[=:]\s*["']?)[^\s,;&"'<>]+`)
	blanks = regexp.MustCompile(`\s+`)
)

// scrubber removes credentials from messages of drivers.
type scrubber struct{ replace *strings.Replacer }

func newScrubber(secrets []objstore.Secret) scrubber {
	var pairs []string
	for _, s := range secrets {
		plain := s.Reveal()
		for _, form := range []string{plain, url.QueryEscape(plain), url.PathEscape(plain)} {
			if form != "" {
				pairs = append(pairs, form, redacted)
			}
		}
	}
	return scrubber{replace: strings.NewReplacer(pairs...)}
}

// text gives one line of err without credentials.
func (s scrubber) text(err error) string {
	text := s.replace.Replace(err.Error())
	text = webURL.ReplaceAllStringFunc(text, func(raw string) string {
		u, err := url.Parse(raw)
		if err != nil {
			return redacted
		}
		u.User, u.RawQuery, u.Fragment = nil, "", ""
		return u.String()
	})
	text = bearer.ReplaceAllString(text, "$1 "+redacted)
	text = named.ReplaceAllString(text, "$1$2"+redacted)
	text = strings.TrimSpace(blanks.ReplaceAllString(text, " "))
	if len(text) > mostText {
		cut := mostText
		for cut > 0 && !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut] + "…"
	}
	return text
}
