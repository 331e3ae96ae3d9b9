package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/answers"
	"attune.io/attune/internal/lookup"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/resize"
)

// Case B26: a policy that resizes pods in a namespace whose new pods are not sized says so in Ready.
func TestReadyNamesANamespaceWhoseNewPodsAreNotSized(t *testing.T) {
	for name, c := range map[string]struct {
		labels map[string]string
		mode   v1alpha1.UpdateType
		want   string
	}{
		"not labelled":           {nil, v1alpha1.UpdateAuto, "the namespace does not have the label attune.io/inject=enabled"},
		"labelled":               {map[string]string{v1alpha1.InjectLabel: v1alpha1.InjectEnabled}, v1alpha1.UpdateAuto, ""},
		"a mode that only shows": {nil, v1alpha1.UpdateRecommend, ""},
	} {
		namespace := lookup.Namespace()
		namespace.Name, namespace.Labels = "shop", c.labels
		settings := lookup.Reader{Client: fake.NewClientBuilder().WithObjects(namespace).Build(), Admission: &workload.Admission{}}
		assert.Equal(t, c.want, settings.NotSized(t.Context(), "shop", &policy.Settings{Resize: resize.Rules{Mode: c.mode}}), name)
	}
	assert.Equal(t, "; new pods are not sized at admission: why", remarks{report{notSized: "why"}}.notSized())
	assert.Empty(t, remarks{report{}}.notSized())
}

// A policy whose user disabled admission says so without a remark, which doctor would report as a warning. A policy that
// changes no pods at all has a remark.
func TestReadySaysThatAdmissionIsDisabled(t *testing.T) {
	for _, c := range []struct {
		spec, message, remarks string
		admission              v1alpha1.Switch
	}{
		{`{updateStrategy: {type: Auto}}`, "watching 1 workload", "", ""},
		{`{updateStrategy: {type: Auto}, admission: Disabled}`, "watching 1 workload (running pods only: the setting admission is Disabled)", "", v1alpha1.Disabled},
		{`{updateStrategy: {type: Recommend}, admission: Disabled}`, "watching 1 workload", "admission: no effect with updateStrategy.type Recommend. Remove the fields from the policy", ""},
		{`{updateStrategy: {type: Initial}, admission: Disabled}`, "watching 1 workload", "attune changes no pods: updateStrategy.type Initial sizes only new pods, " +
			"and the setting admission is Disabled. Use Auto to resize running pods, or set admission: Enabled", v1alpha1.Disabled},
	} {
		p := &v1alpha1.AttunePolicy{}
		require.NoError(t, yaml.UnmarshalStrict([]byte("{spec: "+c.spec+"}"), p))
		p.Spec.TargetRef.Kind = v1alpha1.KindDeployment
		settings, err := policy.Resolve(nil, nil, p)
		require.NoError(t, err)
		status := report{policy: p, settings: settings, matched: matched{won: []workload.Workload{{}}}}.status()
		ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
		require.NotNil(t, ready)
		remarks, _ := answers.Remarks(ready)
		assert.Equal(t, c.remarks, remarks)
		assert.Equal(t, c.message, strings.TrimSuffix(ready.Message, "; "+remarks), c.spec)
		assert.Equal(t, c.admission, status.Admission, c.spec)
	}
}

// A cluster policy names the namespaces with its workloads that lack the label, however many there are.
func TestAClusterPolicyNamesItsNamespacesWithoutTheLabel(t *testing.T) {
	sizing := part{status: v1alpha1.AttunePolicyStatus{Mode: v1alpha1.UpdateAuto, Workloads: &v1alpha1.WorkloadCounts{Discovered: 1},
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonMonitoring}}}}
	bare, recommending, off := sizing, sizing, sizing
	bare.status.Workloads = nil
	recommending.status.Mode, off.status.Admission = v1alpha1.UpdateRecommend, v1alpha1.Disabled
	message := func(lacking int, parts ...part) string {
		x := summary{policy: &v1alpha1.AttuneClusterPolicy{}, lacking: map[string]bool{}, parts: parts}
		for i := range parts {
			x.namespaces = append(x.namespaces, fmt.Sprintf("ns-%02d", i))
			x.lacking[x.namespaces[i]] = i < lacking
		}
		_, remarks, _ := strings.Cut(meta.FindStatusCondition(x.status().Conditions, v1alpha1.ConditionReady).Message, "; ")
		return remarks
	}
	assert.Empty(t, message(0, sizing, sizing))
	assert.Equal(t, "new pods are not sized in 1 namespaces without the label attune.io/inject=enabled: ns-01", message(2, recommending, sizing, sizing))
	assert.Empty(t, message(3, recommending, off, bare, sizing))
	assert.Equal(t, "new pods are not sized in 5000 namespaces without the label attune.io/inject=enabled: ns-00, ns-01, ns-02, ns-03, ns-04 and 4995 more",
		message(5000, slices.Repeat([]part{sizing}, 5000)...))
}

// Under AllButDisabled no namespace lacks a label, and a namespace whose label says disabled never does.
func TestNamespacesThatLackTheLabel(t *testing.T) {
	for _, all := range []bool{false, true} {
		r := newRealm(t, "shop", "bank", "depot", "vault", "kube-system")
		r.namespace("bank", map[string]string{v1alpha1.InjectLabel: v1alpha1.InjectEnabled})
		r.namespace("depot", map[string]string{v1alpha1.InjectLabel: v1alpha1.InjectDisabled})
		r.Settings.Admission = &workload.Admission{Operator: "attune-system", Excluded: []string{"vault"}, AllButDisabled: all}
		r.change(func(p *v1alpha1.AttuneClusterPolicy) {
			p.Spec.UpdateStrategy = &v1alpha1.UpdateStrategy{Type: ptr.To(v1alpha1.UpdateAuto)}
		})
		scope, err := policy.ScopeOf(r.policy(), "attune-system")
		require.NoError(t, err)
		_, lacking, err := summarizer{settings: r.Settings}.selected(t.Context(), scope)
		require.NoError(t, err)
		want := map[string]bool{"shop": true}
		if all {
			want = map[string]bool{}
		}
		assert.Equal(t, want, lacking)
	}
}
