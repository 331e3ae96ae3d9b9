package workload

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Indexes of pods that the loops share: by their workload and by their node.
const (
	PodsByWorkload = "attune.workload"
	PodsByNode     = "attune.node"
)

// IndexOf is a pod's value of PodsByWorkload: its workload, and of a Job's pod the Job. Whose the Job is may be known
// only after the pod was indexed.
func IndexOf(pod metav1.Object) []string {
	id, ok := OwnerOf(pod, pod.GetNamespace(), itself{})
	if !ok {
		return nil
	}
	return []string{id.String()}
}

// itself takes every Job for one that stands alone.
type itself struct{}

func (itself) JobOwner(string, string) (string, bool) { return "", true }
