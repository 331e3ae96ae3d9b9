package cluster

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/test/cluster/internal/inside"
)

// Unlimited is a quota or a memory limit that is not set.
const Unlimited = -1

// Grant is what a cgroup's files say that it gets, whatever the version of cgroups.
type Grant struct {
	// Version of cgroups: 1 or 2.
	Version int
	// Weight of its CPU: cpu.shares with v1, cpu.weight with v2.
	Weight int64
	// Quota is its CPU time of each 100 ms, in microseconds, or Unlimited.
	Quota int64
	// Memory is its memory limit in bytes, or Unlimited.
	Memory int64
}

// GrantOf is what the kubelet and the runtime write for a container's CPU request and limit in millicores, and its memory
// limit in bytes. 0 is a limit that is not set.
func GrantOf(version int, cpu, cpuLimit, memoryLimit int64) Grant {
	const leastQuota, page = 1000, 4096
	grant := Grant{Version: version, Weight: WeightOf(version, cpu), Quota: Unlimited, Memory: Unlimited}
	if cpuLimit > 0 {
		grant.Quota = max(leastQuota, cpuLimit*100)
	}
	if memoryLimit > 0 {
		grant.Memory = memoryLimit / page * page
	}
	return grant
}

// WeightOf is the weight of a CPU request in millicores: 1024 shares a core with cgroup v1, at least 2, and
// with v2 what KEP-2254 maps such shares (2 to 262144) to: 1 to 10000.
func WeightOf(version int, milli int64) int64 {
	shares := max(2, milli*1024/1000)
	if version == 1 {
		return shares
	}
	return 1 + (shares-2)*9999/262142
}

func (g Grant) String() string {
	if g.Version == 1 {
		return fmt.Sprintf("cpu.shares %d, cpu.cfs_quota_us %d, memory.limit_in_bytes %d", g.Weight, g.Quota, g.Memory)
	}
	quota, limit := "max", "max"
	if g.Quota != Unlimited {
		quota = strconv.FormatInt(g.Quota, 10)
	}
	if g.Memory != Unlimited {
		limit = strconv.FormatInt(g.Memory, 10)
	}
	return fmt.Sprintf("cpu.weight %d, cpu.max %s 100000, memory.max %s", g.Weight, quota, limit)
}

// CgroupVersion of the node that a pod is on.
func (c *Cluster) CgroupVersion(pod *corev1.Pod) int {
	if c.vmOf(pod) != 0 || Unified() {
		return 2
	}
	return 1
}

// Grant of a running container.
func (c *Cluster) Grant(pod *corev1.Pod, container string) (Grant, error) {
	return c.grant(pod, func(controller, file string) (string, error) { return c.ReadCgroup(pod, container, controller, file) })
}

// PodGrant is that of a pod's own cgroup, which is above those of its containers.
func (c *Cluster) PodGrant(pod *corev1.Pod) (Grant, error) {
	group, err := inside.PodCgroup(c.Name, pod)
	if err != nil {
		return Grant{}, err
	}
	return c.grant(pod, func(controller, file string) (string, error) {
		return c.readFile(pod, controller, filepath.Join(group, file))
	})
}

func (c *Cluster) grant(pod *corev1.Pod, read func(controller, file string) (string, error)) (Grant, error) {
	grant := Grant{Version: c.CgroupVersion(pod)}
	files := grantFiles[grant.Version]
	for i, into := range []*int64{&grant.Weight, &grant.Quota, &grant.Memory} {
		text, err := read(files[i].controller, files[i].name)
		if err != nil {
			return grant, err
		}
		if *into, err = amount(text); err != nil {
			return grant, fmt.Errorf("reading %s: %w", files[i].name, err)
		}
	}
	return grant, nil
}

type cgroupFile struct{ controller, name string }

// grantFiles have weight, quota and memory limit, by version.
var grantFiles = map[int][3]cgroupFile{
	1: {{"cpu", "cpu.shares"}, {"cpu", "cpu.cfs_quota_us"}, {"memory", "memory.limit_in_bytes"}},
	2: {{"cpu", "cpu.weight"}, {"cpu", "cpu.max"}, {"memory", "memory.max"}},
}

// amount is the first number of a file. With cgroup v1, a memory limit that is not set is the most that the kernel can count.
func amount(text string) (int64, error) {
	first, _, _ := strings.Cut(strings.TrimSpace(text), " ")
	if first == "max" {
		return Unlimited, nil
	}
	const beyond = 1 << 60
	n, err := strconv.ParseInt(first, 10, 64)
	if n > beyond {
		n = Unlimited
	}
	return n, err
}

// MemoryUsage of a running container in bytes, with all kinds of memory that its limit counts.
func (c *Cluster) MemoryUsage(pod *corev1.Pod, container string) (int64, error) {
	text, err := c.ReadCgroup(pod, container, "memory", map[int]string{1: "memory.usage_in_bytes", 2: "memory.current"}[c.CgroupVersion(pod)])
	if err != nil {
		return 0, err
	}
	return amount(text)
}

// OOMKills is how many processes of a running container the kernel has killed for want of memory.
func (c *Cluster) OOMKills(pod *corev1.Pod, container string) (int64, error) {
	return c.field(pod, container, map[int]string{1: "memory.oom_control", 2: "memory.events"}, "oom_kill")
}

// OwnMemory is what the processes of a running container hold themselves, without files: bytes.
func (c *Cluster) OwnMemory(pod *corev1.Pod, container string) (int64, error) {
	name := map[int]string{1: "total_rss", 2: "anon"}[c.CgroupVersion(pod)]
	return c.field(pod, container, map[int]string{1: "memory.stat", 2: "memory.stat"}, name)
}

// field is a line of one of a container's files that are lists.
func (c *Cluster) field(pod *corev1.Pod, container string, file map[int]string, name string) (int64, error) {
	text, err := c.ReadCgroup(pod, container, "memory", file[c.CgroupVersion(pod)])
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		if key, value, _ := strings.Cut(strings.TrimSpace(line), " "); key == name {
			return amount(value)
		}
	}
	return 0, fmt.Errorf("no line %s in %q", name, text)
}
