package inside

import (
	"fmt"
	"path/filepath"
	"strings"

	"attune.io/attune/test/cluster/internal/spec"
	corev1 "k8s.io/api/core/v1"
)

// PodCgroup is the path of a pod's cgroup below each controller, by the
// kubelet's rules for the cgroupfs driver.
func PodCgroup(cluster string, pod *corev1.Pod) (string, error) {
	var node int
	if _, err := fmt.Sscanf(pod.Spec.NodeName, "node%d", &node); err != nil {
		return "", fmt.Errorf("pod %s is not on a node yet", pod.Name)
	}
	class := ""
	if pod.Status.QOSClass != corev1.PodQOSGuaranteed {
		class = strings.ToLower(string(pod.Status.QOSClass))
	}
	return filepath.Join(spec.CgroupRoot(cluster, node), "kubepods", class, "pod"+string(pod.UID)), nil
}

// ContainerCgroup is the path of a container's cgroup below each controller;
// id is as a container's status has it.
func ContainerCgroup(cluster string, pod *corev1.Pod, id string) (string, error) {
	_, bare, ok := strings.Cut(id, "://")
	if !ok {
		return "", fmt.Errorf("a container of pod %s has not started yet", pod.Name)
	}
	group, err := PodCgroup(cluster, pod)
	return filepath.Join(group, bare), err
}
