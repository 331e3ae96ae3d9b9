package cluster

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"attune.io/attune/test/await"
	"attune.io/attune/test/cluster/internal/inside"
	"attune.io/attune/test/cluster/internal/spec"
	"attune.io/attune/test/cluster/internal/state"
	corev1 "k8s.io/api/core/v1"
)

// vmLimit is for what a VM node does within milliseconds where the machine has nothing else to do.
const vmLimit = time.Minute

// vmOf is the VM node the pod is on, or 0.
func (c *Cluster) vmOf(pod *corev1.Pod) int {
	for i := c.Nodes - c.VMNodes + 1; i <= c.Nodes; i++ {
		if pod.Spec.NodeName == spec.NodeName(i) {
			return i
		}
	}
	return 0
}

// onVM runs a program on VM node i and returns what it prints, without the newline at its end.
func (c *Cluster) onVM(i int, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), vmLimit)
	defer cancel()
	var stderr bytes.Buffer
	cmd := c.vmCommand(ctx, i, name, args)
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s on %s: %w\n%s", name, spec.NodeName(i), err, stderr.String())
	}
	return strings.TrimSpace(string(output)), nil
}

// freezeOnVM freezes or thaws a pod by its cgroup, and returns when that is so.
func (c *Cluster) freezeOnVM(i int, pod *corev1.Pod, frozen bool) error {
	group, err := inside.PodCgroup(c.Name, pod)
	if err != nil {
		return err
	}
	dir, value := filepath.Join(state.CgroupDir, group), "0"
	if frozen {
		value = "1"
	}
	if _, err := c.onVM(i, "sh", "-c", `echo "$1" > "$2"`, "sh", value, filepath.Join(dir, "cgroup.freeze")); err != nil {
		return err
	}
	return await.Until(context.Background(), "the cgroup of pod "+pod.Name, vmLimit, pollEvery, func(context.Context) error {
		events, err := c.onVM(i, "cat", filepath.Join(dir, "cgroup.events"))
		if err == nil && !strings.Contains(events, "frozen "+value) {
			err = fmt.Errorf("pod %s is on its way: %s", pod.Name, events)
		}
		return err
	})
}
