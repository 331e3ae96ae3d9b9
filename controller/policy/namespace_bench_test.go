package policy

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
)

// crowd is a fleet with many more policies, each of which selects all of its workloads by a selector that is not an
// equality.
func crowd(tb testing.TB, policies, workloads int) *fleet {
	tb.Helper()
	f := newFleet(tb, workloads)
	for i := range policies - 1 {
		f.memory.put(&v1alpha1.AttunePolicy{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: fmt.Sprintf("p-%04d", i), UID: "policy", Generation: 1,
				CreationTimestamp: metav1.NewTime(today.Add(time.Duration(i) * time.Second)),
			},
			Spec: v1alpha1.AttunePolicySpec{TargetRef: v1alpha1.TargetRef{
				Kind: v1alpha1.KindDeployment, Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
					{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"x"}},
					{Key: "team", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"x"}},
					{Key: "c", Operator: metav1.LabelSelectorOpDoesNotExist},
				}},
			}},
		})
	}
	return f
}

// annotate changes an annotation of a workload.
func (f *fleet) annotate(tb testing.TB, workload, note int) {
	tb.Helper()
	d := &appsv1.Deployment{}
	require.NoError(tb, f.memory.Get(context.Background(), client.ObjectKey{Namespace: "shop", Name: fleetName(workload)}, d))
	d.Annotations = map[string]string{"note": fmt.Sprint(note)}
	require.NoError(tb, f.memory.Update(context.Background(), d))
}

// look reconciles all policies of the namespace that an event in it wakes.
func (f *fleet) look(tb testing.TB) {
	tb.Helper()
	for _, request := range f.InNamespace(context.Background(), "shop") {
		_, err := f.Reconcile(context.Background(), request)
		require.NoError(tb, err)
	}
}

// BenchmarkNamespace is the cost of one change of one workload in a namespace with the most policies: each of them is
// reconciled.
func BenchmarkNamespace(b *testing.B) {
	for _, n := range []int{100, 500} {
		f := crowd(b, n, n)
		f.look(b)
		b.Run(fmt.Sprintf("%d policies and %d workloads, one changed", n, n), func(b *testing.B) {
			b.ReportAllocs()
			var changes int
			for b.Loop() {
				changes++
				f.annotate(b, changes%n, changes)
				f.look(b)
			}
		})
		b.Run(fmt.Sprintf("one pass beside %d policies and %d workloads", n, n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f.pass(b)
			}
		})
	}
}
