//go:build !linux

package objstore

import "context"

// copyInKernel copies nothing here.
func copyInKernel(context.Context, int, int, int64) (int64, error) { return 0, nil }
