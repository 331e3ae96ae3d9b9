package loops

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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/test/fault"
	"attune.io/attune/test/kubelet"
)

// story is something that happens to the pods of one workload under a policy. However the operator fares
// meanwhile, it ends in one way.
type story struct {
	name string
	node kubelet.Options
	// begin makes the workload, before the policy; policy is what the policy says.
	begin  func(w *world)
	policy string
	// meanwhile is what happens beside the operator, at every moment, whatever the operator does.
	meanwhile func(w *world)
	// results of the resizes in the end, oldest first.
	results []string
}

// ending is all that may be told of how a story ended, but for times.
type ending struct {
	Specs, Results, Originals, Verified, Floors, Finalizers []string
}

// chronicle is a story as it went.
type chronicle struct {
	ending ending
	calls  []fault.Call
	// sizes are the sizes that each pod's spec went through, patches the resizes that reached the API server.
	sizes   map[string]bool
	patches []string
}

// trouble is set up before the policy is there.
type trouble func(w *world)

// tell has a story happen, with some trouble on the way to the API server, until everything is finished.
func (s story) tell(t *testing.T, befall trouble) chronicle {
	t.Helper()
	w := newWorld(t, s.node)
	if w.memoryServer == nil {
		t.Cleanup(w.clear)
	}
	w.clock.SetTime(w.beginning)
	s.begin(w)
	w.startNewPods()
	if strings.Contains(s.policy, string(v1alpha1.ResizeInPlaceOrRecreate)) {
		w.mayEvict()
	}
	told := chronicle{sizes: map[string]bool{}}
	original := w.sizes()
	w.passed = func() {
		for pod, size := range w.sizes() {
			told.sizes[pod+" "+size] = true
		}
	}
	w.passed()
	if befall != nil {
		w.stumble = func(error) {}
		befall(w)
	}
	w.buried = func() { w.isRecoverable(original) }
	w.policy("all", "targetRef: {kind: Deployment}\n"+s.policy)
	w.run(2*time.Hour, time.Minute, func() bool {
		w.deliver()
		if s.meanwhile != nil {
			s.meanwhile(w)
		}
		return !w.finished(len(s.results))
	})
	require.True(t, w.finished(len(s.results)), "the story does not end\n%s", w.describe())
	// Longer than any operator is away.
	w.run(15*time.Minute, time.Minute)
	if befall != nil {
		require.NotZero(t, w.link.Struck(), "the trouble never came\n%s", w.link.Calls())
	}
	w.until(2*time.Hour, "whatever began meanwhile is finished", func() bool { return w.finished(len(s.results)) })
	told.ending = w.ending()
	told.calls = w.link.Calls()
	told.patches = w.patches()
	return told
}

// deliver hands on what was held back on the way for a while.
func (w *world) deliver() {
	if w.lateUntil.IsZero() && w.link.Holds() {
		w.lateUntil = w.clock.Now().Add(lateBy)
	}
	if !w.lateUntil.IsZero() && !w.clock.Now().Before(w.lateUntil) && w.link.Deliver() {
		w.lateUntil = time.Time{}
		w.changes++
		clear(w.known)
	}
}

// lateBy is how late what is late comes.
const lateBy = 20 * time.Second

// clear takes the pods away from an API server that worlds share, so that those who list all pods have less to read.
func (w *world) clear() {
	assert.NoError(w.t, w.direct.DeleteAllOf(testContext(w.t), &corev1.Pod{}, client.InNamespace(w.namespace), client.GracePeriodSeconds(0)))
}

// finished: no record is open, no finalizer is left, and so many pods' resizes are in the history.
func (w *world) finished(results int) bool {
	recs := w.recommendations()
	if len(recs) != 1 {
		return false
	}
	rec := recs[0]
	policies := &v1alpha1.AttunePolicyList{}
	require.NoError(w.t, w.direct.List(w.t.Context(), policies, client.InNamespace(w.namespace)))
	return len(rec.Status.Records) == 0 && len(rec.Finalizers) == 0 && len(rec.Status.History) >= results &&
		len(policies.Items)+w.deleted == 1
}

func (w *world) ending() ending {
	rec := w.recommendation()
	e := ending{Results: results(rec), Finalizers: rec.Finalizers, Specs: w.targets()}
	for pod, size := range w.sizes() {
		e.Specs = append(e.Specs, pod+" "+size)
	}
	for _, o := range rec.Status.Originals {
		e.Originals = append(e.Originals, sizesOf(o.Containers))
	}
	for _, k := range rec.Status.Verified {
		e.Verified = append(e.Verified, k.Name+" "+sizeText(podview.FromResources(k.Size)))
	}
	e.Floors = floors(rec)
	for _, list := range [][]string{e.Specs, e.Results, e.Originals, e.Verified, e.Floors} {
		slices.Sort(list)
	}
	return e
}

// floors are the greatest of each resource as they were learned: how old they look is a matter of clocks.
func floors(rec *v1alpha1.AttuneRecommendation) (list []string) {
	for _, r := range recommender.Resources {
		var greatest recommender.Amount
		reason := ""
		for _, f := range rec.Status.Floors {
			if amount := podview.AmountOf(r, f.Amount); f.Resource == r.String() && amount > greatest {
				greatest, reason = amount, f.Reason
			}
		}
		if greatest > 0 {
			list = append(list, fmt.Sprintf("%s %s after %s", r, recommender.Format(r, greatest), reason))
		}
	}
	return list
}

// sizes are those of the pods' specs, by pod.
func (w *world) sizes() map[string]string {
	w.t.Helper()
	sizes := map[string]string{}
	for _, pod := range w.pods() {
		var parts []string
		for _, c := range pod.Spec.Containers {
			parts = append(parts, c.Name+" "+sizeText(podview.ReadSpec(c.Resources)))
		}
		sizes[pod.Name] = strings.Join(parts, ", ")
	}
	return sizes
}

func sizesOf(containers []v1alpha1.ContainerResources) string {
	var parts []string
	for _, c := range containers {
		parts = append(parts, c.Name+" "+sizeText(podview.FromResources(c.Resources)))
	}
	return strings.Join(parts, ", ")
}

func sizeText(s recommender.Size) string {
	var parts []string
	for _, r := range recommender.Resources {
		parts = append(parts, recommender.Format(r, s[r].Request)+"/"+recommender.Format(r, s[r].Limit))
	}
	return strings.Join(parts, " ")
}

// patches are the resizes that reached the API server, without the uids of their pods.
func (w *world) patches() []string {
	w.t.Helper()
	var out []string
	for _, call := range w.link.Calls() {
		if call.Kind() != "patch pods/resize" || !call.Landed {
			continue
		}
		var patch struct {
			Spec json.RawMessage `json:"spec"`
		}
		require.NoError(w.t, json.Unmarshal(call.Body, &patch))
		out = append(out, call.Name+" "+string(patch.Spec))
	}
	return out
}

// isRecoverable: whoever comes now can put every pod back. A pod that has not the size it was born with has
// an open record or a row in the history, and its original size is written down.
func (w *world) isRecoverable(original map[string]string) {
	w.t.Helper()
	recs := w.recommendations()
	for pod, size := range w.sizes() {
		if size == original[pod] {
			continue
		}
		if !assert.Len(w.t, recs, 1) {
			return
		}
		status := recs[0].Status
		record := slices.ContainsFunc(status.Records, func(r v1alpha1.ResizeRecord) bool { return r.PodName == pod })
		row := slices.ContainsFunc(status.History, func(h v1alpha1.HistoryEntry) bool { return h.Pod == pod })
		assert.True(w.t, record || row, "nobody knows that pod %s was resized", pod)
		assert.True(w.t, !record || len(recs[0].Finalizers) > 0, "a record without a finalizer")
		known := slices.ContainsFunc(status.Originals, func(o v1alpha1.Originals) bool { return sizesOf(o.Containers) == original[pod] })
		assert.True(w.t, known, "the original size of pod %s, %s, is not among %v", pod, original[pod], status.Originals)
	}
}
