package harm

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
)

// A release leaks memory, is OOM-killed and rolled back: the release before it keeps its size.
func TestDropRolledBack(t *testing.T) {
	const good, bad, next = "6d4cf56db6", "7f9c8b5d4d", "5c6f7d8e9f"
	at := func(before time.Duration) *metav1.Time { return &metav1.Time{Time: noon.Add(-before)} }
	generations := []v1alpha1.Originals{
		{TemplateHash: good, Since: at(90 * time.Hour)}, {TemplateHash: bad, Since: at(time.Hour)}, {TemplateHash: next, Since: at(time.Minute)},
	}
	pods := func(hashes ...string) (pods []*corev1.Pod) {
		for _, hash := range hashes {
			pod := &corev1.Pod{}
			pod.Labels = map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: hash}
			pods = append(pods, pod)
		}
		return pods
	}
	floor := func(hash string) v1alpha1.Floor { return v1alpha1.Floor{Container: "app", TemplateHash: hash} }
	of := func(floors []v1alpha1.Floor) (hashes []string) {
		for _, f := range floors {
			hashes = append(hashes, f.TemplateHash)
		}
		return hashes
	}
	floors := []v1alpha1.Floor{floor(good), floor(bad), floor("")}
	for name, tc := range map[string]struct {
		pods []*corev1.Pod
		now  time.Time
		want []string
	}{
		"rolled back":                         {pods(good, good), noon, []string{good, ""}},
		"one pod of the bad release lives":    {pods(good, bad), noon, []string{good, bad, ""}},
		"the bad release runs":                {pods(bad), noon, []string{good, bad, ""}},
		"followed by another one":             {pods(next), noon, []string{good, bad, ""}},
		"rolled back after more than an hour": {pods(good), noon.Add(time.Minute), []string{good, bad, ""}},
		"scaled to zero":                      {nil, noon, []string{good, bad, ""}},
		"a generation that is not known":      {pods("unknown"), noon, []string{good, bad, ""}},
	} {
		assert.Equal(t, tc.want, of(DropRolledBack(floors, generations, tc.pods, tc.now)), name)
	}
}
