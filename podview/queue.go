package podview

import "strings"

// Queue is a system that reserved room for a pod by the requests of its template. The zero value: none did.
type Queue struct {
	// Name of the system, for messages.
	Name string
	// Counts reports that it counts the requests as long as the pod exists. Others count them until all pods of a group
	// are scheduled.
	Counts bool
}

// KueueWorkload is the annotation that Kueue adds to the pods of a workload.
const (
	KueueWorkload = kueuePrefix + "workload"
	kueuePrefix   = "kueue.x-k8s.io/"
)

// Kueue counts the requests of a pod as long as the pod exists.
var Kueue = Queue{Name: "Kueue", Counts: true}

// groupKeys are the labels and annotations by which schedulers know the group of a pod.
var groupKeys = [...]struct{ key, name string }{
	{"scheduling.x-k8s.io/pod-group", "the pod group"},
	{"pod-group.scheduling.sigs.k8s.io", "the pod group"},
	{"pod-group.scheduling.sigs.k8s.io/name", "the pod group"},
	{"scheduling.k8s.io/group-name", "Volcano"},
	{"scheduling.volcano.sh/group-name", "Volcano"},
	{"yunikorn.apache.org/task-group-name", "YuniKorn"},
	{"gang.scheduling.koordinator.sh/name", "Koordinator"},
}

// QueueOf returns the system that reserved room for a pod with these labels and annotations. grouped: the pod has a
// scheduling group. gated: it has scheduling gates, and the controller that removes them may have counted it. Caches
// keep the labels of pods, but only the annotation KueueWorkload.
func QueueOf(labels, annotations map[string]string, grouped, gated bool) Queue {
	for _, keys := range [...]map[string]string{labels, annotations} {
		for key := range keys {
			if strings.HasPrefix(key, kueuePrefix) {
				return Kueue
			}
		}
	}
	for _, g := range groupKeys {
		if labels[g.key] != "" || annotations[g.key] != "" {
			return Queue{Name: g.name}
		}
	}
	switch {
	case grouped:
		return Queue{Name: "the scheduling group"}
	case gated:
		return Queue{Name: "the controller of its scheduling gates"}
	}
	return Queue{}
}
