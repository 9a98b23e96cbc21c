package maintain

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/flightblob/flightblob/internal/duration"
	"github.com/flightblob/flightblob/internal/fault"
	"github.com/flightblob/flightblob/table"
)

// Settings of a table that ask for cleanups after commits (sheet section 7.3).
const (
	keyInterval = "lance.auto_cleanup.interval"
	keyAge      = "lance.auto_cleanup.older_than"
	keyRetain   = "lance.auto_cleanup.retain_versions"
)

// AutoCleanup cleans the line of a version up that was just published, if the
// table's settings ask for it after this one. due says whether they do. As in the
// reference the version before counts as the newest, so that two stay at least.
//
// Settings without an age and a number mean DefaultAge here; the reference then
// removes everything but two versions. Tagged versions stay, where the reference
// removes nothing once one of them is old.
func AutoCleanup(ctx context.Context, s *table.Snapshot) (report Report, due bool, err error) {
	policy, due, err := autoPolicy(s.Manifest().Config, s.Version())
	if err != nil || !due {
		return Report{}, due, err
	}
	policy.Branch = s.Ref().Branch
	report, err = Cleanup(ctx, s.Table(), policy)
	return report, true, err
}

// autoPolicy reads the settings. One that cannot be understood is fault.Invalid,
// and nothing is cleaned up.
func autoPolicy(config map[string]string, version uint64) (policy Policy, due bool, err error) {
	text, ok := config[keyInterval]
	if !ok {
		return Policy{}, false, nil
	}
	interval, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return Policy{}, false, badSetting(keyInterval, text, "a number of versions")
	}
	if interval > 0 && version%interval != 0 {
		return Policy{}, false, nil
	}
	policy.newest = max(version, 1) - 1
	if text, ok := config[keyAge]; ok {
		var age time.Duration
		if age, ok = duration.Parse(text); !ok {
			return Policy{}, false, badSetting(keyAge, text, "a length of time such as 14d")
		}
		policy.OlderThan = &age
	}
	if text, ok := config[keyRetain]; ok {
		policy.RetainVersions, err = strconv.ParseUint(text, 10, 64)
		if err != nil || policy.RetainVersions == 0 {
			return Policy{}, false, badSetting(keyRetain, text, "a number of versions, 1 or more")
		}
	}
	return policy, true, nil
}

func badSetting(key, value, want string) error {
	return fault.New(fault.Invalid, "maintain: the setting %s is %q; it must be %s", key, fmt.Sprintf("%.100s", value), want)
}
