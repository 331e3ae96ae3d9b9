package sim

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	"attune.io/attune/test/sim/api"
)

// starts: no resize of ours keeps a container from starting (cgroup v1: a CPU quota above that of its pod's cgroup).
type starts struct {
	deaf
	*scene
	// last is who changed a pod's size last.
	last map[string]string
}

func newStarts(s *scene) *starts { return &starts{scene: s, last: map[string]string{}} }

func (s *starts) wrote(w api.Write) {
	if w.Verb == "patch/resize" && w.Answer == nil {
		s.last[w.UID] = w.Actor
	}
}

func (s *starts) changed(e api.Event) {
	pod, ok := e.Object.(*corev1.Pod)
	switch {
	case !ok:
		return
	case e.Type == watch.Deleted:
		delete(s.last, string(pod.UID))
		return
	case !strings.HasPrefix(s.last[string(pod.UID)], "attune"):
		return
	}
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Waiting != nil && c.State.Waiting.Reason == "RunContainerError" {
			of := s.workloadOf("Pod", key2(pod.Namespace, pod.Name))
			s.violate("starts", of.String(), "container %s of pod %s cannot start: %s", c.Name, pod.Name, c.State.Waiting.Message)
		}
	}
}
