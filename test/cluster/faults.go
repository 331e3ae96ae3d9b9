package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// faultFile, in a node's directory, says which resizes the proxy before its container runtime spoils.
const faultFile = "faults.json"

// Fault is how resizes are spoiled: "fail", none is made and the kubelet is told so; "lie", none is made and the kubelet
// is told that it is; "half", CPU alone is changed; "late", after so many seconds; "", not at all.
type Fault struct {
	Kind    string `json:"kind"`
	Seconds int    `json:"seconds,omitempty"`
}

var faultFiles sync.Mutex

// SpoilResizes of a running container, until it ends: what is started in its place is another one to its runtime. The
// cluster needs Options.CRIProxy.
func (c *Cluster) SpoilResizes(pod *corev1.Pod, container string, fault Fault) error {
	i := slices.IndexFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == container })
	if i < 0 {
		return fmt.Errorf("pod %s has no container %s", pod.Name, container)
	}
	_, id, _ := strings.Cut(pod.Status.ContainerStatuses[i].ContainerID, "://")
	faultFiles.Lock()
	defer faultFiles.Unlock()
	path := filepath.Join(c.dir, pod.Spec.NodeName, faultFile)
	all := map[string]Fault{}
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	all[id] = fault
	if text, err = json.Marshal(all); err != nil {
		return err
	}
	whole := path + ".new"
	if err := os.WriteFile(whole, text, 0o600); err != nil {
		return err
	}
	return os.Rename(whole, path)
}
