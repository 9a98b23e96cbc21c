package objstore

import "log/slog"

// Secret holds a credential that cannot be printed by accident: the text
// lives in a closure, so neither formatting verbs nor reflecting encoders find
// it, wherever the Secret is nested.
type Secret struct{ reveal func() string }

const redacted = "[redacted]"

// NewSecret hides text. The empty text gives the zero Secret.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{reveal: func() string { return text }}
}

// Reveal gives the text, for handing it to a driver only.
func (s Secret) Reveal() string {
	if s.reveal == nil {
		return ""
	}
	return s.reveal()
}

// IsZero reports that there is no secret.
func (s Secret) IsZero() bool { return s.reveal == nil }

// String hides the text.
func (s Secret) String() string {
	if s.IsZero() {
		return ""
	}
	return redacted
}

// GoString hides the text from %#v.
func (s Secret) GoString() string { return `objstore.Secret("` + s.String() + `")` }

// LogValue hides the text from slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText hides the text from encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
