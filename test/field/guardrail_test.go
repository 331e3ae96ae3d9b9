package field

import (
	"cmp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/resize"
	"attune.io/attune/resize/harm"
	"attune.io/attune/resize/resizetest"
	"attune.io/attune/webhook/validation"
)

// guardrail is a case of settings that are validated in each kind of object and, if they have a guardrail and are valid, of
// its answer during and at the end of an observation.
type guardrail struct {
	Policy v1alpha1.PolicySettings `json:"policy"`
	// Refused is a part of the sentence with which the settings are rejected. Default: they are accepted.
	Refused string `json:"refused,omitempty"`
	// Value is the result of the first guardrail; Failed is why it has none.
	Value  string `json:"value,omitempty"`
	Failed string `json:"failed,omitempty"`
	// Reverted is the message of the revert. Default: the resize is not reverted.
	Reverted string `json:"reverted,omitempty"`
	// Ends is the message with which the observation ends without a conclusion.
	Ends string `json:"ends,omitempty"`
}

func (g *guardrail) run(t *testing.T) {
	meta := metav1.ObjectMeta{Name: v1alpha1.DefaultsName, Namespace: "shop"}
	p := &v1alpha1.AttunePolicy{ObjectMeta: meta, Spec: v1alpha1.AttunePolicySpec{TargetRef: v1alpha1.TargetRef{Kind: v1alpha1.KindDeployment}, PolicySettings: g.Policy}}
	defaults := v1alpha1.DefaultsSpec{PolicySettings: g.Policy}
	operator := policy.Operator{SourceNamespaces: []string{"shop"}}
	for _, object := range []runtime.Object{
		p, &v1alpha1.AttuneClusterPolicy{ObjectMeta: meta, Spec: v1alpha1.AttuneClusterPolicySpec{PolicySettings: g.Policy}},
		&v1alpha1.AttuneDefaults{ObjectMeta: meta, Spec: defaults}, &v1alpha1.AttuneNamespaceDefaults{ObjectMeta: meta, Spec: defaults},
	} {
		v := validation.Validate(object, validation.Env{Operator: operator})
		assert.Equal(t, g.Refused != "", len(v.Denied) > 0, "%T: %v", object, v.Denied)
		if len(v.Denied) > 0 {
			assert.Contains(t, v.Denied[0].Sentence, g.Refused, "%T", object)
		}
	}
	if g.Refused != "" {
		return
	}
	settings, err := policy.ResolveAllowed(nil, nil, p, operator)
	require.NoError(t, err)
	value, err := strconv.ParseFloat(cmp.Or(g.Value, "0"), 64)
	require.NoError(t, err)
	const observed = 5 * time.Minute
	signals := harm.Signals{Throttle: map[string]float64{"app": 0}, Answers: map[harm.Question]harm.Answer{
		harm.Questions(settings.Resize)[0]: {Value: value, Failed: g.Failed},
	}}
	pod := resizetest.Resized(resizetest.Desired, resizetest.Observed, resizetest.Done(resizetest.Desired))
	record := resizetest.Recorded(resizetest.Desired, resizetest.WatchedUntil(observed))
	during := harm.Judge(pod, record, resizetest.Noon.Add(time.Minute), settings.Resize, signals)
	atEnd := harm.Judge(pod, record, resizetest.Noon.Add(observed), settings.Resize, signals)
	if g.Reverted != "" {
		want := resize.Verdict{Harm: resize.HarmSLO, Message: g.Reverted}
		assert.Equal(t, [2]resize.Verdict{want, want}, [2]resize.Verdict{during, atEnd})
		return
	}
	assert.Equal(t, [2]resize.Verdict{{}, {Inconclusive: g.Ends != "", Message: g.Ends}}, [2]resize.Verdict{during, atEnd})
}
