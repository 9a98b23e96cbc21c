// Package maintain makes a table smaller or copies it, losing nothing.
//
//	Compact       small and half-deleted fragments → fewer, full ones
//	Cleanup       versions that nobody keeps → gone, with what only they name
//	ShallowClone  another table over the same files
//	DeepClone     another table with files of its own
//
// Each begins with a plan that reads manifests and descriptors and no payload, and
// which a dry run answers as it is. What is written is durable before a manifest
// names it; what is deleted is proved first to be named by no version that is
// kept. After a failure or a crash the table is as before, and what was written
// lies about until a cleanup takes it.
package maintain
