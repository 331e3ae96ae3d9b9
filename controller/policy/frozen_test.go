package policy

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
)

// denying is an API server that rejects changes of recommendations in one namespace.
type denying struct {
	*memory
	namespace string
	answer    error
}

func (d denying) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	if _, ok := o.(*v1alpha1.AttuneRecommendation); ok && o.GetNamespace() == d.namespace {
		return d.answer
	}
	return d.memory.Patch(ctx, o, p, opts...)
}

// observe changes the cluster policy, so that each namespace must be reconciled again.
func (r realm) observe() {
	r.change(func(p *v1alpha1.AttuneClusterPolicy) {
		p.Spec.UpdateStrategy = &v1alpha1.UpdateStrategy{Type: ptr.To(v1alpha1.UpdateObserve)}
	})
}

// tried is all, but reconciles of some namespaces may fail.
func (r realm) tried(namespaces ...string) (failed error) {
	r.t.Helper()
	for _, request := range r.everywhere(r.t.Context(), r.policy()) {
		_, err := r.Reconcile(r.t.Context(), request)
		if !slices.Contains(namespaces, request.Namespace) {
			require.NoError(r.t, err)
			continue
		}
		failed = errors.Join(failed, err)
	}
	r.reconcile(ctrl.Request{NamespacedName: summaryOf("base")})
	return failed
}

func (r realm) current() v1alpha1.AttuneClusterPolicyStatus {
	r.t.Helper()
	s := r.policy().Status
	assert.Equal(r.t, r.policy().Generation, s.ObservedGeneration)
	return s
}

// A workload that another attune installation manages is counted, and does not block the status.
func TestAnothersWorkloadFreezesNoStatus(t *testing.T) {
	r := newRealm(t, "shop", "bank", "zoo")
	r.all()
	rec := r.memory.recommendations("zoo")[0].DeepCopy()
	rec.Status.Operator = "attune-old"
	rec.Status.Paused = &v1alpha1.PausedState{Since: metav1.NewTime(today), Reason: "turns"}
	r.memory.put(rec)
	r.parts.ForgetIf(func(types.NamespacedName, part) bool { return true }) // a restart
	r.observe()
	r.all()
	s := r.current()
	assert.Equal(t, v1alpha1.UpdateObserve, s.Mode)
	assert.EqualValues(t, 3, s.Workloads.Discovered)
}

// An admission rule of one namespace, or an API server that answers with errors there, is reported for that
// namespace.
func TestOneNamespaceFreezesNoStatus(t *testing.T) {
	for name, answer := range map[string]struct {
		err    error
		reason string
	}{
		"refused":  {forbidden("deployment-web", "a rule of zoo: é"), v1alpha1.ReasonRecommendationRefused},
		"not read": {errors.New("connection refused"), v1alpha1.ReasonWorkloadDiscoveryFailed},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRealm(t, "shop", "bank", "zoo")
			r.all()
			server := denying{r.memory, "zoo", answer.err}
			r.Client = server
			delete(r.memory.objects["Deployment/zoo"], "web") // its recommendation must be released
			r.observe()
			require.ErrorIs(t, r.tried("zoo"), answer.err)
			s := r.current()
			require.Len(t, s.Unready, 1)
			assert.Equal(t, "zoo", s.Unready[0].Namespace)
			assert.Equal(t, answer.reason, s.Unready[0].Reason)
			assert.Contains(t, s.Unready[0].Message, answer.err.Error())
			assert.EqualValues(t, 3, s.Workloads.Discovered, "what was counted before stays")

			r.memory.written()
			require.Error(t, r.tried("zoo"))
			assert.Zero(t, r.memory.written(), "it is said once")
			r.Client = r.memory
			r.all()
			assert.Empty(t, r.current().Unready)
		})
	}
}

// Workloads that cannot be listed anywhere are reported, and the earlier counts stay.
func TestNamespacesThatCannotBeReadKeepTheirNumbers(t *testing.T) {
	r := newRealm(t, "shop", "bank")
	r.all()
	before := r.policy().Status
	server := &refusing{memory: r.memory, unlisted: forbidden("", "no right to list")}
	r.Client, r.Settings.Client = server, server
	require.ErrorIs(t, r.tried("shop", "bank"), server.unlisted)
	s := r.current()
	require.Len(t, s.Unready, 2)
	assert.Equal(t, v1alpha1.ReasonWorkloadDiscoveryFailed, s.Unready[0].Reason)
	assert.Equal(t, before.Workloads, s.Workloads)
	assert.Equal(t, before.Savings, s.Savings)
}

// Invalid settings in one namespace, and a policy beyond the limit, are reported even if their workloads cannot be
// released.
func TestFailedReleaseFreezesNoStatus(t *testing.T) {
	r := newRealm(t, "shop", "zoo")
	r.all()
	r.Client = denying{r.memory, "zoo", forbidden("deployment-web", "no")}
	defaults := &v1alpha1.AttuneNamespaceDefaults{ObjectMeta: metav1.ObjectMeta{Namespace: "zoo", Name: "default"}}
	defaults.Spec.Strategy = ptr.To(v1alpha1.StrategyNode)
	r.memory.put(defaults)
	r.change(func(p *v1alpha1.AttuneClusterPolicy) {
		p.Spec.UpdateStrategy = &v1alpha1.UpdateStrategy{Type: ptr.To(v1alpha1.UpdateCanary)}
	})
	require.Error(t, r.tried("zoo"))
	s := r.current()
	require.Len(t, s.Unready, 1)
	assert.Equal(t, v1alpha1.ReasonRecommendationRefused, s.Unready[0].Reason)
}

// A message is cut between two runes: the API server stores no half runes, and the status would never equal the
// stored one.
func TestAMessageIsCutBetweenRunes(t *testing.T) {
	message := strings.Repeat("a", 255) + "é: no"
	var x parts
	instance := policy.Instance(&v1alpha1.AttuneClusterPolicy{ObjectMeta: metav1.ObjectMeta{Name: "base"}}, "shop", true)
	x.note(instance, v1alpha1.AttunePolicyStatus{Conditions: []metav1.Condition{falseCondition(v1alpha1.ConditionReady, "X", message)}})
	ready := x.Of(client.ObjectKeyFromObject(instance)).condition(v1alpha1.ConditionReady)
	assert.True(t, utf8.ValidString(ready.Message))
	assert.Equal(t, message[:255], ready.Message)
}
