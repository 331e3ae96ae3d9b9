package withdraw

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
)

// leaving returns a pod that lived for a time, and is being deleted since a moment.
func leaving(name string, lived time.Duration, at time.Time) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(at.Add(-lived)), Labels: map[string]string{"pod-template-hash": "abc"},
		DeletionTimestamp: &metav1.Time{Time: at.Add(30 * time.Second)}, DeletionGracePeriodSeconds: ptr.To[int64](30),
	}}
}

// Operators such as those of databases compare a pod with what they want, and delete it.
func TestOwnerThatDeletesSizedPodsAgainAndAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		// change alters the input of the i-th of four deletions, one each minute.
		change func(i int, in *Input, pod *corev1.Pod)
		want   bool
	}{
		"one after the other": {change: func(int, *Input, *corev1.Pod) {}, want: true},
		"pods that are evicted, preempted, or lost with their node": {change: func(_ int, _ *Input, pod *corev1.Pod) {
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}
		}},
		"pods that admission did not size": {change: func(_ int, in *Input, _ *corev1.Pod) { in.Seeded = func(*corev1.Pod) *v1alpha1.Seeded { return nil } }},
		"pods that ran for a while":        {change: func(_ int, _ *Input, pod *corev1.Pod) { pod.CreationTimestamp = metav1.NewTime(now.Add(-time.Hour)) }},
		"all at once": {change: func(i int, _ *Input, pod *corev1.Pod) {
			pod.CreationTimestamp = metav1.NewTime(now.Add(time.Duration(i)*time.Minute - 110*time.Second))
		}, want: false},
		"an autoscaler that changes its mind": {change: func(i int, in *Input, _ *corev1.Pod) { in.Replicas = int32(1 + i%2) }},
		"rollouts, one after the other":       {change: func(i int, _ *Input, pod *corev1.Pod) { pod.Labels["pod-template-hash"] = fmt.Sprint("hash", i) }},
		"templates, one after the other": {change: func(i int, in *Input, _ *corev1.Pod) {
			in.Template = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: fmt.Sprint("v", i)}}}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var out Output
			for i := range 4 {
				at := now.Add(time.Duration(i) * time.Minute)
				in := input(at)
				in.Seeded = func(*corev1.Pod) *v1alpha1.Seeded { return &v1alpha1.Seeded{Revision: "r"} }
				in.Deletions, in.Status, in.Replicas = out.Deletions, out.Status, 1
				in.Leaving = []*corev1.Pod{leaving(fmt.Sprint("db-", i), 40*time.Second, at)}
				if name == "all at once" {
					in.Leaving = nil
					for n := range 5 {
						in.Leaving = append(in.Leaving, leaving(fmt.Sprint("db-", n), 40*time.Second, now))
					}
				}
				for _, pod := range in.Leaving {
					if name != "all at once" {
						tc.change(i, &in, pod)
					}
				}
				out = Judge(in)
				out = Judge(func() Input { in.Deletions, in.Status = out.Deletions, out.Status; return in }()) // a pod is seen more than once
				assert.LessOrEqual(t, len(out.Deletions.List), mostDeleted)
			}
			if assert.Equal(t, tc.want, out.Status != nil) && tc.want {
				assert.Equal(t, v1alpha1.ReasonPodsDoNotStart, out.Status.Reason)
				assert.Contains(t, out.Status.Message, "were deleted within 2m of their creation, one after the other")
			}
		})
	}
	in := input(now.Add(time.Hour))
	in.Deletions = Deletions{List: []Deletion{{UID: "old", At: now}}}
	assert.Empty(t, Judge(in).Deletions.List, "after 15 minutes they are forgotten")
}

// The kubelet turns a pod away, the pod has failed, and its ReplicaSet creates the next one at once.
func TestPodsThatKubeletsTurnAway(t *testing.T) {
	turned := func(name string, request string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(now.Add(-time.Minute))},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"memory": resource.MustParse(request)}}}}},
			Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfmemory"},
		}
	}
	for name, tc := range map[string]struct {
		pods []*corev1.Pod
		want bool
	}{
		"three that were raised":     {[]*corev1.Pod{turned("a", "4Gi"), turned("b", "4Gi"), turned("c", "4Gi")}, true},
		"two":                        {[]*corev1.Pod{turned("a", "4Gi"), turned("b", "4Gi")}, false},
		"three of the template size": {[]*corev1.Pod{turned("a", "1Gi"), turned("b", "1Gi"), turned("c", "1Gi")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(now)
			in.All = tc.pods
			in.Seeded = func(*corev1.Pod) *v1alpha1.Seeded { return &v1alpha1.Seeded{Revision: "r"} }
			in.Originals = func(*corev1.Pod) map[string]recommender.Size {
				return map[string]recommender.Size{"app": {recommender.Memory: {Request: 1 << 30}}}
			}
			out := Judge(in)
			assert.Equal(t, tc.want, out.Status != nil)
			in.Now = now.Add(time.Hour)
			in.Status = nil
			assert.Nil(t, Judge(in).Status, "long ago")
		})
	}
}

// The names before the answer itself take more than half of a short message.
func TestReasonAfterLongNamesCounts(t *testing.T) {
	for length := 1; length <= 63; length++ {
		name := fmt.Sprintf("%0*d", length, 0)
		message := fmt.Sprintf(`create Pod %[1]s-0 in StatefulSet %[1]s failed error: pods "%[1]s-0" is forbidden: exceeded quota: compute-resources, requested: limits.memory=4Gi, used: limits.memory=0, limited: limits.memory=1Gi`, name)
		in := input(now)
		in.Rejected = &Rejection{At: now, Message: message}
		out := Judge(in)
		if assert.NotNil(t, out.Status, length) {
			assert.Contains(t, out.Status.Message, "exceeded quota: compute-resources", "the reason stays readable")
		}
	}
}

// Answers that pass by themselves do not cost a workload a day of admission resources.
func TestAnswersThatPassDoNotWithdraw(t *testing.T) {
	for _, message := range []string{
		`pods "web-x" is forbidden: status unknown for quota: q, resources: limits.cpu`,
		`Operation cannot be fulfilled on resourcequotas "q": the object has been modified; please apply your changes to the latest version and try again`,
		`create Pod kafka-0 in StatefulSet kafka failed error: The POST operation against Pod could not be completed at this time, please try again.`,
		`the server is currently unable to handle the request (post pods)`,
		`etcdserver: leader changed`,
		`Timeout: request did not complete within requested timeout - context deadline exceeded`,
		`failed calling webhook "pods.example.com": Post "https://w.x.svc/mutate?timeout=30s": net/http: request canceled (Client.Timeout exceeded)`,
		`Internal error occurred: resource quota evaluation timed out`,
		`create Claim data-web-0 for Pod web-0 in StatefulSet web failed error: persistentvolumeclaims "data-web-0" is forbidden: maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 8Gi`,
	} {
		assert.False(t, MayReject(message, SeedEffect{Raises: true, Lowers: true}), message)
	}
}
