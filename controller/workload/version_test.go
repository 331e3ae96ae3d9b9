package workload

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize/lifecycle"
)

// meanwhile changes a pod after it was listed for a pass, once.
func (l *lab) meanwhile(name string, edit func(*corev1.Pod)) {
	done := false
	l.c.Client = interceptor.NewClient(l.c.Client.(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, api client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := api.List(ctx, list, opts...)
			if _, pods := list.(*corev1.PodList); pods && !done {
				done = true
				change(l, name, &corev1.Pod{}, edit)
			}
			return err
		},
	})
}

// A value that a user raises while a pass decides to lower it stays; a status update of the kubelet does not matter.
func TestDecreasesNameThePodsVersion(t *testing.T) {
	rescue := func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = resource.MustParse("4Gi")
		p.Generation++
	}
	for name, tc := range map[string]struct {
		to      recommender.Size
		edit    func(*corev1.Pod)
		patches int
		memory  string
	}{
		"a person raised it":          {sizeOf(250, 0, 512, 0), rescue, 1, "4Gi"},
		"its kubelet reported status": {sizeOf(250, 0, 512, 0), func(p *corev1.Pod) { p.Status.Message = "fine" }, 2, "512Mi"},
		"growing needs no version":    {big, func(p *corev1.Pod) { p.Status.Message = "fine" }, 1, "512Mi"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, heading(seen(t, small), tc.to).Rec, deploymentOf(small, 1), running("web-1", small))
			l.meanwhile("web-1", tc.edit)
			l.pass()
			assert.Equal(t, tc.patches, l.patches)
			requests := l.pod("web-1").Spec.Containers[0].Resources.Requests
			assert.Equal(t, tc.memory, requests.Memory().String())
			if tc.memory == "512Mi" {
				assert.NotEqual(t, int64(500), requests.Cpu().MilliValue(), "it is resized")
				require.Len(t, l.rec().Status.Records, 1)
			}
		})
	}
}

// A second patch is computed from the live pod, and is sent although the kubelet updates the status meanwhile.
func TestASecondPatchIsOfTheLivePod(t *testing.T) {
	from, half, to := sizeOf(500, 0, 512, 1024), sizeOf(250, 0, 256, 1024), sizeOf(250, 0, 256, 512)
	pod := running("web-1", half)
	pod.Generation, pod.Status.ObservedGeneration = 2, 2
	record := recordOf(running("web-1", from), half)
	record.Phase, record.Generation = v1alpha1.RecordApplied, 2
	record.VerifiedOnce = &metav1.Time{Time: now.Add(-lifecycle.SyncPeriod)}
	record.Then = []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(to)}}
	w := heading(seen(t, from), to)
	w.Rec.Status.Records = []v1alpha1.ResizeRecord{record}
	l := newLab(t, w.Rec, deploymentOf(from, 1), pod)
	l.meanwhile("web-1", func(p *corev1.Pod) { p.Status.Message = "fine" })
	l.pass()
	assert.Equal(t, 1, l.patches, "it is read before it is sent")
	limits := l.pod("web-1").Spec.Containers[0].Resources.Limits
	assert.Equal(t, "512Mi", limits.Memory().String())
	assert.Equal(t, v1alpha1.RecordApplied, l.known().Status.Records[0].Phase)
}
