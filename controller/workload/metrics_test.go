package workload

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
)

// What a workload's pods went through is counted, and its series go with its recommendation, whatever that was
// deleted for.
func TestSeriesOfAWorkloadGoWithIt(t *testing.T) {
	rec := &v1alpha1.AttuneRecommendation{}
	rec.Namespace, rec.Name = "metrics", "deployment-web"
	rec.Spec.Workload = v1alpha1.WorkloadRef{Kind: v1alpha1.KindDeployment, Name: "web"}
	record := v1alpha1.ResizeRecord{
		WrittenAt: metav1.NewTime(now), VerifiedOnce: &metav1.Time{Time: now.Add(3 * time.Second)},
		Prior:   []v1alpha1.ContainerResources{{Name: "app", Resources: resize.ToResources(sizeOf(4000, 0, 512, 1024))}},
		Desired: []v1alpha1.ContainerResources{{Name: "app", Resources: resize.ToResources(sizeOf(300, 0, 256, 512))}},
	}
	var x counted
	x.note(rec)
	counts := append(countsOf("success", record, ""), tookOf(record)...)
	counts = append(counts, countsOf("reverted", record, "oomkill")...)
	for _, n := range counts {
		n.add(rec)
	}
	countEviction(rec, resize.EvictionDenied)
	setPending(rec, 1)
	of := []string{"metrics", "Deployment", "web"}
	assert.Equal(t, 1.0, testutil.ToFloat64(resizes.WithLabelValues(append(of, "cpu", "success")...)))
	assert.Equal(t, 1.0, testutil.ToFloat64(resizes.WithLabelValues(append(of, "memory", "reverted")...)))
	assert.Equal(t, 1.0, testutil.ToFloat64(reverts.WithLabelValues(append(of, "oomkill")...)))
	all := []prometheus.Collector{resizes, reverts, evictions, pendingReverts, durations}
	for _, metric := range all {
		assert.NotZero(t, testutil.CollectAndCount(metric))
	}
	x.drop(client.ObjectKeyFromObject(rec))
	x.drop(client.ObjectKeyFromObject(rec))
	for _, metric := range all {
		assert.Zero(t, testutil.CollectAndCount(metric))
	}
	assert.Nil(t, tookOf(v1alpha1.ResizeRecord{}), "never verified")
}
