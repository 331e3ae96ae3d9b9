package trim_test

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/internal/trim"
)

// settled returns the heap size after unused shared strings are freed, which takes several garbage collections.
func settled() int64 {
	for range 3 {
		runtime.GC()
	}
	return heap()
}

// A user who patches one object repeatedly does not fill the tables of shared maps.
func TestTablesOfSharedMapsAreBounded(t *testing.T) {
	for name, maps := range map[string]struct {
		entries, text int
	}{"many small maps": {2, 10}, "long texts": {3, 200}, "maps that are not shared": {32, 300}} {
		before := settled()
		var cached any
		for n := range 4_000 {
			labels := map[string]string{}
			for i := range maps.entries {
				labels[fmt.Sprintf("%d-%d-%s", n, i, strings.Repeat("k", maps.text))] = fmt.Sprint(n, i)
			}
			cached = trimmed[any](t, trim.Object, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "evil", Name: "one", Labels: labels}})
		}
		grown := settled() - before
		t.Logf("%s: %d KiB", name, grown>>10)
		assert.Less(t, grown, int64(20<<20), name)
		runtime.KeepAlive(cached)
	}
	// Users choose the names of extended resources too.
	before := settled()
	for n := range 4_000 {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{}}}}}}
		for i := range 32 {
			pod.Spec.Containers[0].Resources.Requests[corev1.ResourceName(fmt.Sprintf("a.b/%d-%d-%s", n, i, strings.Repeat("k", 50)))] = resource.MustParse("1")
		}
		trimmed(t, trim.Object, pod)
	}
	assert.Less(t, settled()-before, int64(20<<20))
}

func TestReplicasShareTheirMaps(t *testing.T) {
	a, b := trimmed(t, trim.Object, runningPod(1)), trimmed(t, trim.Object, runningPod(2))
	same := func(x, y any) bool { return reflect.ValueOf(x).Pointer() == reflect.ValueOf(y).Pointer() }
	assert.True(t, same(a.Labels, b.Labels))
	assert.True(t, same(a.Spec.Containers[0].Resources.Requests, b.Spec.Containers[0].Resources.Requests))
}
