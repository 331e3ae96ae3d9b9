package cluster

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"attune.io/attune/test/await"
	"attune.io/attune/test/cluster/internal/inside"
	"attune.io/attune/test/cluster/internal/spec"
	"attune.io/attune/test/cluster/internal/state"
	corev1 "k8s.io/api/core/v1"
)

// KillNode ends node i as a power cut would: all its processes are gone at
// once, and the control plane finds out when its heartbeats fail to come.
func (c *Cluster) KillNode(i int) error {
	return c.killProcess(context.Background(), spec.NodeName(i))
}

// ReadCgroup reads a file of a running container's own cgroup, without the
// newline at its end: ReadCgroup(pod, "app", "memory", "memory.limit_in_bytes").
// The controller "unified" has the container's pressure (cpu.pressure). With
// cgroup v2, which VM nodes have, all files are in one directory whatever the controller.
func (c *Cluster) ReadCgroup(pod *corev1.Pod, container, controller, file string) (string, error) {
	for _, status := range slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses) {
		if status.Name != container {
			continue
		}
		group, err := inside.ContainerCgroup(c.Name, pod, status.ContainerID)
		if err != nil {
			return "", err
		}
		return c.readFile(pod, controller, filepath.Join(group, file))
	}
	return "", fmt.Errorf("pod %s has no running container %s", pod.Name, container)
}

// readFile of the node that a pod is on, below a controller.
func (c *Cluster) readFile(pod *corev1.Pod, controller, file string) (string, error) {
	if i := c.vmOf(pod); i != 0 {
		return c.onVM(i, "cat", filepath.Join(state.CgroupDir, file))
	}
	data, err := os.ReadFile(state.Cgroup(controller, file))
	return strings.TrimSpace(string(data)), err
}

// PodCgroup is the directory of a pod's own cgroup below a controller; those of
// its containers are in it. With cgroup v2 it is the same whatever the controller; on a VM node it is that node's.
func (c *Cluster) PodCgroup(pod *corev1.Pod, controller string) (string, error) {
	group, err := inside.PodCgroup(c.Name, pod)
	if c.vmOf(pod) != 0 {
		return filepath.Join(state.CgroupDir, group), err
	}
	return state.Cgroup(controller, group), err
}

// FreezePod stops all processes of the pod where they are, as a hang does:
// its sockets still accept connections, but nothing answers.
func (c *Cluster) FreezePod(pod *corev1.Pod) error {
	if i := c.vmOf(pod); i != 0 {
		return c.freezeOnVM(i, pod, true)
	}
	pids, err := c.signal(pod, syscall.SIGSTOP)
	if err != nil {
		return err
	}
	// The signal is only sent by now; a thread may run on until it is handed over.
	return await.Until(context.Background(), "pod "+pod.Name+" to stop", 10*time.Second, pollEvery, func(context.Context) error {
		for _, pid := range pids {
			if err := stopped(pid); err != nil {
				return err
			}
		}
		return nil
	})
}

// stopped is nil if no thread of a process runs: all are stopped, or ended.
func stopped(pid int) error {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return err
	}
	for _, file := range files {
		does, err := state.RunState(file)
		if err == nil && !strings.ContainsRune("TtZX", rune(does)) { // an error: it has ended
			return fmt.Errorf("a thread of process %d is in state %c", pid, does)
		}
	}
	return nil
}

// ThawPod lets a frozen pod go on.
func (c *Cluster) ThawPod(pod *corev1.Pod) error {
	if i := c.vmOf(pod); i != 0 {
		return c.freezeOnVM(i, pod, false)
	}
	_, err := c.signal(pod, syscall.SIGCONT)
	return err
}

// signal sends one to all processes of a pod, and returns their ids.
func (c *Cluster) signal(pod *corev1.Pod, sig syscall.Signal) ([]int, error) {
	group, err := inside.PodCgroup(c.Name, pod)
	if err != nil {
		return nil, err
	}
	pids, err := processesIn(state.Cgroup("memory", group))
	if err != nil {
		return nil, err
	}
	if len(pids) == 0 {
		return nil, fmt.Errorf("pod %s has no processes", pod.Name)
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, sig); err != nil && err != syscall.ESRCH {
			return nil, fmt.Errorf("signalling process %d of pod %s: %w", pid, pod.Name, err)
		}
	}
	return pids, nil
}

// processesIn lists the processes of a cgroup and all below it.
func processesIn(cgroup string) ([]int, error) {
	var pids []int
	err := filepath.WalkDir(cgroup, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "cgroup.procs" {
			return err
		}
		data, err := os.ReadFile(path)
		for _, field := range strings.Fields(string(data)) {
			pid, _ := strconv.Atoi(field) // the kernel writes numbers
			pids = append(pids, pid)
		}
		return err
	})
	return pids, err
}
