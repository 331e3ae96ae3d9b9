package cluster

import "attune.io/attune/test/cluster/internal/inside"

// The processes of a cluster are this very program started again, so every
// program that uses this package can play their parts.
func init() { inside.RunIfAsked() }
