package workload

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
)

// manyContainers is a pod of n containers, as kubelets show it.
func manyContainers(name string, n int) *corev1.Pod {
	pod := running(name, sizeOf(500, 1000, 512, 1024))
	pod.Spec.NodeName = "ip-10-0-0-1.ec2.internal"
	spec, status := pod.Spec.Containers[0], pod.Status.ContainerStatuses[0]
	pod.Spec.Containers, pod.Status.ContainerStatuses = nil, nil
	for i := range n {
		spec.Name = fmt.Sprintf("container-%02d", i)
		status.Name, status.ContainerID = spec.Name, fmt.Sprintf("containerd://%064d", i)
		status.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now.Add(-time.Hour))}
		pod.Spec.Containers = append(pod.Spec.Containers, *spec.DeepCopy())
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, *status.DeepCopy())
	}
	return pod
}

// All pods of a workload are to be resized at once, each container in two patches: the records that are opened take
// what they may of the object, however many containers there are, also once all their times are set.
func TestRecordsAreBoundedByBytes(t *testing.T) {
	for containers, least := range map[int]int{1: 40, 4: 15, 10: 6, 20: 3} {
		t.Run(fmt.Sprint(containers, " containers"), func(t *testing.T) {
			w := eager(seen(t, sizeOf(500, 1000, 512, 1024)))
			w.rec.Spec.Containers = nil
			for i := range containers {
				w.rec.Spec.Containers = append(w.rec.Spec.Containers, v1alpha1.ContainerTarget{
					Name: fmt.Sprintf("container-%02d", i), Target: resize.ToResources(sizeOf(300, 600, 256, 512)),
				})
			}
			for i := range 500 {
				w.pods = append(w.pods, manyContainers(fmt.Sprintf("web-5d4f8c7b9d-%05d", i), containers))
			}
			w.workload.Replicas = 500
			w.nodes["ip-10-0-0-1.ec2.internal"] = nodeView{Node: node("ip-10-0-0-1.ec2.internal", "16000", "64000Gi")}
			w.settings.Resize.MaxConcurrentPercent, w.settings.Resize.CanaryPercent = 100, 100
			d := decide(w)
			records := d.status.Records
			require.GreaterOrEqual(t, len(records), least)
			for i := range records {
				at := &metav1.Time{Time: now}
				r := &records[i]
				r.Begun, r.Deadline, r.VerifiedOnce, r.WatchUntil = at, at, at, at
				r.Then, r.Generation, r.Reason, r.TemplateHash = r.Desired, 100, "TemplateLimitRange", "5d4f8c7b9d"
			}
			size, err := json.Marshal(records)
			require.NoError(t, err)
			t.Logf("%d records, %d bytes", len(records), len(size))
			assert.LessOrEqual(t, len(size), resize.RecordsBytes)
			waits := slices.ContainsFunc(d.refused.of, func(r tally) bool { return r.Reason == resize.ReasonRecordsFull && r.Transient })
			assert.Equal(t, len(records) < v1alpha1.MaxRecords, waits, "the others are told what they wait for")
		})
	}
}
