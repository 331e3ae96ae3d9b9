package tuning_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/resize"
	"attune.io/attune/tuning"
)

// filled fills every list of a recommendation except its records, for a number of containers.
func filled(rec *v1alpha1.AttuneRecommendation, containers int) {
	name := func(i int) string { return fmt.Sprintf("container-%02d", i%containers) }
	all := func() (sizes []v1alpha1.ContainerResources) {
		for i := range containers {
			sizes = append(sizes, v1alpha1.ContainerResources{Name: name(i), Resources: podview.ToResources(sizeOf(500, 1000, 512, 1024))})
		}
		return sizes
	}
	s := &rec.Status
	for i := range 2 {
		s.Originals = append(s.Originals, v1alpha1.Originals{TemplateHash: fmt.Sprint("5d4f8c7b9", i), Since: &metav1.Time{Time: now}, Containers: all()})
	}
	for i := range containers {
		s.Verified = append(s.Verified, v1alpha1.VerifiedResources{Name: name(i), Size: podview.ToResources(sizeOf(500, 1000, 512, 1024)), Since: metav1.NewTime(now), TemplateHash: "abc"})
	}
	for i := range v1alpha1.MaxHistory {
		s.History = append(s.History, v1alpha1.HistoryEntry{Timestamp: metav1.NewTime(now), Workload: "web", Pod: "web-5d4f8c7b9d-00000", Container: name(i),
			Resource: "cpu+memory", From: "500m, 1Gi", To: "200m, 512Mi", Method: "InPlace", Result: "Success"})
	}
	for i := range v1alpha1.MaxTries {
		s.Tries = append(s.Tries, v1alpha1.Try{What: v1alpha1.TryResize, Pod: fmt.Sprint("web-5d4f8c7b9d-0000", i), Reason: "Quota", Message: strings.Repeat("x", 120), Since: metav1.NewTime(now), Until: metav1.NewTime(now)})
	}
	for i := range containers {
		rec.Spec.Checkpoints = append(rec.Spec.Checkpoints, v1alpha1.Checkpoint{Name: name(i), At: metav1.NewTime(now), Data: make([]byte, min(2048, 12<<10/containers))})
	}
}

// The object stays below its maximum size in bytes: records get the rest of it.
func TestTheObjectIsBoundedByBytes(t *testing.T) {
	for containers, least := range map[int]int{1: 25, 4: 8, 10: 2, 15: 1} {
		t.Run(fmt.Sprint(containers, " containers"), func(t *testing.T) {
			w := many(t, containers)
			filled(w.Rec, containers)
			w.Rec.Status.Tries = w.Rec.Status.Tries[:16]
			for i := range w.Rec.Status.Tries {
				w.Rec.Status.Tries[i].Until = metav1.NewTime(now.Add(-time.Hour))
			}
			d := tuning.Decide(w)
			w.Rec.Status = d.Status
			for i := range w.Rec.Spec.Containers {
				w.Rec.Spec.Containers[i].Steps = []v1alpha1.Step{{Reason: strings.Repeat("x", min(2500, 13<<10/containers))}}
			}
			require.GreaterOrEqual(t, len(d.Status.Records), least)
			size, err := json.Marshal(w.Rec)
			require.NoError(t, err)
			t.Logf("%d records, %d bytes", len(d.Status.Records), len(size))
			assert.LessOrEqual(t, len(size), resize.ObjectBytes)
		})
	}
}

// All pods need a resize at once, each container in two patches. The records stay within their share of the object
// for any number of containers, also when all their times are set.
func TestRecordsAreBoundedByBytes(t *testing.T) {
	for containers, least := range map[int]int{1: 40, 4: 15, 10: 6, 20: 3} {
		t.Run(fmt.Sprint(containers, " containers"), func(t *testing.T) {
			w := many(t, containers)
			d := tuning.Decide(w)
			records := d.Status.Records
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
			waits := slices.ContainsFunc(tuning.Refused(w).Of(), func(r tuning.Tally) bool { return r.Reason == resize.ReasonRecordsFull && r.Transient })
			assert.Equal(t, len(records) < v1alpha1.MaxRecords, waits, "the others are told what they wait for")
		})
	}
}

// many returns a workload of 500 pods with n containers each that all need a resize.
func many(t *testing.T, containers int) tuning.View {
	w := eager(seen(t, sizeOf(500, 1000, 512, 1024)))
	w.Rec.Spec.Containers = nil
	for i := range containers {
		w.Rec.Spec.Containers = append(w.Rec.Spec.Containers, v1alpha1.ContainerTarget{
			Name: fmt.Sprintf("container-%02d", i), Target: podview.ToResources(sizeOf(300, 600, 256, 512)),
		})
	}
	for i := range 500 {
		w.Pods = append(w.Pods, manyContainers(fmt.Sprintf("web-5d4f8c7b9d-%05d", i), containers))
	}
	w.Workload.Replicas = 500
	w.Nodes["ip-10-0-0-1.ec2.internal"] = tuning.Node{Node: node("ip-10-0-0-1.ec2.internal", "16000", "64000Gi")}
	w.Policy.Settings.Resize.MaxConcurrentPercent, w.Policy.Settings.Resize.CanaryPercent = 100, 100
	return w
}

// manyContainers returns a running pod of n containers.
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
