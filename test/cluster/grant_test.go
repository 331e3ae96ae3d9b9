package cluster_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"attune.io/attune/test/cluster"
)

func TestGrantOf(t *testing.T) {
	for name, c := range map[string]struct {
		got  cluster.Grant
		want string
	}{
		"v1":                      {cluster.GrantOf(1, 250, 500, 128<<20), "cpu.shares 256, cpu.cfs_quota_us 50000, memory.limit_in_bytes 134217728"},
		"v2":                      {cluster.GrantOf(2, 250, 500, 128<<20), "cpu.weight 10, cpu.max 50000 100000, memory.max 134217728"},
		"v1, nothing asked for":   {cluster.GrantOf(1, 0, 0, 0), "cpu.shares 2, cpu.cfs_quota_us -1, memory.limit_in_bytes -1"},
		"v2, nothing asked for":   {cluster.GrantOf(2, 0, 0, 0), "cpu.weight 1, cpu.max max 100000, memory.max max"},
		"the least quota":         {cluster.GrantOf(1, 1, 5, 0), "cpu.shares 2, cpu.cfs_quota_us 1000, memory.limit_in_bytes -1"},
		"memory is in full pages": {cluster.GrantOf(2, 0, 0, 2*4096+1), "cpu.weight 1, cpu.max max 100000, memory.max 8192"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, c.got.String()) })
	}
}
