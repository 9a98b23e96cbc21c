package blob

import "fmt"

// String gives the kind's name as SQL shows it. Both managed kinds are
// "managed": they differ in how the base is found, not in what they are.
func (k Kind) String() string {
	switch k {
	case Inline:
		return "inline"
	case Packed:
		return "packed"
	case Dedicated:
		return "dedicated"
	case External:
		return "external"
	case Managed, ManagedBase:
		return "managed"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Known tells whether the format defines the kind (DESC-6).
func (k Kind) Known() bool { return k <= ManagedBase }
