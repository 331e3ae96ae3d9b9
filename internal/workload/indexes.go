package workload

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Names of the indexes of pods that the loops share: PodsByWorkload by the pod's workload, PodsByNode by its node.
const (
	PodsByWorkload = "attune.workload"
	PodsByNode     = "attune.node"
)

// IndexOf returns a pod's value in PodsByWorkload: its workload, or its Job for the pod of a Job, even if that
// belongs to a CronJob. The index is computed once for each pod, and the owner of the Job may become known only
// later.
func IndexOf(pod metav1.Object) []string {
	id, ok := OwnerOf(pod, pod.GetNamespace(), itself{})
	if !ok {
		return nil
	}
	return []string{id.String()}
}

// itself is a Lookup that takes every Job for one that stands alone.
type itself struct{}

func (itself) JobOwner(string, string) (string, bool) { return "", true }
