package validation_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/webhook/validation"
)

// stored are the defaults that exist, or the error of reading them.
type stored struct {
	client.Reader
	cluster   *v1alpha1.AttuneDefaults
	namespace *v1alpha1.AttuneNamespaceDefaults
	err       error
}

func (s stored) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	switch o := into.(type) {
	case *v1alpha1.AttuneDefaults:
		if s.err == nil && s.cluster != nil && key == client.ObjectKeyFromObject(s.cluster) {
			s.cluster.DeepCopyInto(o)
			return nil
		}
	case *v1alpha1.AttuneNamespaceDefaults:
		if s.err == nil && s.namespace != nil && key == client.ObjectKeyFromObject(s.namespace) {
			s.namespace.DeepCopyInto(o)
			return nil
		}
	}
	if s.err != nil {
		return s.err
	}
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

func handler(t *testing.T, s stored) *validation.Handler {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	return &validation.Handler{Reader: s, Decoder: admission.NewDecoder(scheme)}
}

func request(t *testing.T, operation admissionv1.Operation, object, old client.Object) admission.Request {
	t.Helper()
	r := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{UID: "1", Operation: operation, Namespace: object.GetNamespace(), Name: object.GetName()}}
	switch object.(type) {
	case *v1alpha1.AttunePolicy:
		r.Kind = metav1.GroupVersionKind{Group: "attune.io", Version: "v1alpha1", Kind: "AttunePolicy"}
	case *v1alpha1.AttuneDefaults:
		r.Kind = metav1.GroupVersionKind{Group: "attune.io", Version: "v1alpha1", Kind: "AttuneDefaults"}
	case *v1alpha1.AttuneNamespaceDefaults:
		r.Kind = metav1.GroupVersionKind{Group: "attune.io", Version: "v1alpha1", Kind: "AttuneNamespaceDefaults"}
	}
	r.Object.Raw = raw(t, object)
	if old != nil {
		r.OldObject.Raw = raw(t, old)
	}
	return r
}

func raw(t *testing.T, object client.Object) []byte {
	t.Helper()
	data, err := json.Marshal(object)
	require.NoError(t, err)
	return data
}

func TestValidPolicyIsAllowed(t *testing.T) {
	answer := handler(t, stored{}).Handle(t.Context(), request(t, admissionv1.Create, aPolicy(t, `{weight: 1}`), nil))
	assert.True(t, answer.Allowed)
	assert.Empty(t, answer.Warnings)
}

// TestDenied: one sentence for users, one cause per field for programs.
func TestDenied(t *testing.T) {
	bad := aPolicy(t, `{updateStrategy: {type: Canary, schedule: {timezone: Mars}}}`)
	answer := handler(t, stored{cluster: clusterDefaults(t, `strategy: Node`)}).Handle(t.Context(), request(t, admissionv1.Create, bad, nil))
	assert.False(t, answer.Allowed)
	const zone = "updateStrategy.schedule.timezone Mars is not a known time zone: use an IANA name, e.g. Europe/Berlin or UTC"
	const mode = "updateStrategy.type Canary is not supported with strategy Node (from the AttuneDefaults): use Observe, Recommend, Initial or Auto, or strategy Workload"
	assert.Equal(t, zone+"; "+mode, answer.Result.Message)
	assert.EqualValues(t, http.StatusUnprocessableEntity, answer.Result.Code)
	assert.Equal(t, metav1.StatusReasonInvalid, answer.Result.Reason)
	assert.Equal(t, []metav1.StatusCause{
		{Type: metav1.CauseTypeFieldValueInvalid, Field: "spec.updateStrategy.schedule.timezone", Message: zone},
		{Type: metav1.CauseTypeFieldValueInvalid, Field: "spec.updateStrategy.type", Message: mode},
	}, answer.Result.Details.Causes)
}

// TestLevelsBelow: an object is validated with the defaults of its own namespace and of the cluster.
func TestLevelsBelow(t *testing.T) {
	levels := stored{cluster: clusterDefaults(t, `memory: {minAllowed: 2Gi}`), namespace: namespaceDefaults(t, `strategy: Node`)}
	for name, c := range map[string]struct {
		object client.Object
		denied bool
	}{
		"policy against the cluster":    {aPolicy(t, `memory: {maxAllowed: 1Gi}`), true},
		"policy against the namespace":  {aPolicy(t, `updateStrategy: {type: Canary}`), true},
		"policy against neither":        {aPolicy(t, `memory: {maxAllowed: 3Gi}`), false},
		"namespace against the cluster": {namespaceDefaults(t, `memory: {maxAllowed: 1Gi}`), true},
		"namespace against itself only": {namespaceDefaults(t, `updateStrategy: {type: Canary}`), false},
		"the cluster against nobody":    {clusterDefaults(t, `memory: {maxAllowed: 1Gi}`), false},
	} {
		t.Run(name, func(t *testing.T) {
			answer := handler(t, levels).Handle(t.Context(), request(t, admissionv1.Create, c.object, nil))
			assert.Equal(t, c.denied, !answer.Allowed, answer.Result)
		})
	}
}

func TestWarned(t *testing.T) {
	answer := handler(t, stored{cluster: clusterDefaults(t, `cpu: {overhead: lots}`)}).Handle(t.Context(), request(t, admissionv1.Create, aPolicy(t, `{weight: 1}`), nil))
	assert.True(t, answer.Allowed)
	assert.Equal(t, []string{`attune sizes nothing until this is fixed: cpu.overhead lots (from the AttuneDefaults) must be a decimal number between 0 and 1000, e.g. "20"`}, answer.Warnings)
}

// TestNothingIsStuck: an object that is invalid by now can still lose its finalizer and change its labels.
func TestNothingIsStuck(t *testing.T) {
	bad := aPolicy(t, `updateStrategy: {schedule: {timezone: Mars}}`)
	relabelled := bad.DeepCopy()
	relabelled.Labels = map[string]string{"team": "shop"}
	worse := bad.DeepCopy()
	worse.Spec.UpdateStrategy.Schedule.Timezone = "Venus"
	going := worse.DeepCopy()
	now := metav1.Now()
	going.DeletionTimestamp = &now
	for name, c := range map[string]struct {
		operation   admissionv1.Operation
		object, old client.Object
		allowed     bool
	}{
		"created":                       {admissionv1.Create, bad, nil, false},
		"changed":                       {admissionv1.Update, worse, bad, false},
		"relabelled":                    {admissionv1.Update, relabelled, bad, true},
		"being deleted":                 {admissionv1.Update, going, bad, true},
		"deleted":                       {admissionv1.Delete, bad, nil, true},
		"defaults relabelled":           {admissionv1.Update, clusterDefaults(t, `cpu: {overhead: x}`), clusterDefaults(t, `cpu: {overhead: x}`), true},
		"namespace defaults relabelled": {admissionv1.Update, namespaceDefaults(t, `cpu: {overhead: x}`), namespaceDefaults(t, `cpu: {overhead: x}`), true},
		"defaults changed":              {admissionv1.Update, clusterDefaults(t, `cpu: {overhead: x}`), clusterDefaults(t, `cpu: {overhead: z}`), false},
	} {
		t.Run(name, func(t *testing.T) {
			answer := handler(t, stored{}).Handle(t.Context(), request(t, c.operation, c.object, c.old))
			assert.Equal(t, c.allowed, answer.Allowed)
		})
	}
}

func TestErrors(t *testing.T) {
	unreadable := request(t, admissionv1.Create, aPolicy(t, `{weight: 1}`), nil)
	unreadable.Object.Raw = []byte(`{"spec": {"weight": "much"}}`)
	answer := handler(t, stored{}).Handle(t.Context(), unreadable)
	assert.False(t, answer.Allowed)
	assert.EqualValues(t, http.StatusBadRequest, answer.Result.Code)
	assert.Contains(t, answer.Result.Message, "reading the AttunePolicy")

	answer = handler(t, stored{err: errors.New("cache is not started")}).Handle(t.Context(), request(t, admissionv1.Create, aPolicy(t, `{weight: 1}`), nil))
	assert.False(t, answer.Allowed)
	assert.EqualValues(t, http.StatusInternalServerError, answer.Result.Code)
	assert.Contains(t, answer.Result.Message, "reading the defaults, try again: cache is not started")

	// The old object cannot be read: the new one is validated.
	noOld := request(t, admissionv1.Update, aPolicy(t, `cpu: {percentile: 101}`), nil)
	noOld.OldObject.Raw = []byte(`{`)
	assert.False(t, handler(t, stored{}).Handle(t.Context(), noOld).Allowed)

	other := request(t, admissionv1.Create, &v1alpha1.AttuneRecommendation{}, nil)
	other.Kind.Kind = "AttuneRecommendation"
	assert.True(t, handler(t, stored{}).Handle(t.Context(), other).Allowed)
}

// TestAmountsThatTakeLongToRead: these amounts would cost the webhook minutes and gigabytes.
func TestAmountsThatTakeLongToRead(t *testing.T) {
	const slow = `{"spec":{"weight":1,"cpu":{"minAllowed":"1e-2147483647"}}}`
	r := request(t, admissionv1.Create, aPolicy(t, `{weight: 1}`), nil)
	r.Object.Raw = []byte(slow)
	answer := handler(t, stored{}).Handle(t.Context(), r)
	assert.False(t, answer.Allowed)
	assert.Equal(t, "reading the AttunePolicy: minAllowed: the exponent of the quantity 1e-2147483647 is too large: use at most two digits, e.g. 250m or 64Mi", answer.Result.Message)

	r = request(t, admissionv1.Update, aPolicy(t, `{weight: 1}`), nil)
	r.OldObject.Raw = []byte(slow)
	assert.True(t, handler(t, stored{}).Handle(t.Context(), r).Allowed, "it is mended")
}

// TestRejectsMoreThanTheSchemaAllows: no API server sends such an object, and rejecting it is as cheap as sending it.
func TestRejectsMoreThanTheSchemaAllows(t *testing.T) {
	many := aPolicy(t, `{weight: 1}`)
	many.Spec.SLOGuardrails = make([]v1alpha1.SLOGuardrail, 17)
	answer := handler(t, stored{}).Handle(t.Context(), request(t, admissionv1.Create, many, nil))
	assert.Equal(t, "sloGuardrails has 17 entries: use at most 16", answer.Result.Message)
	often := namespaceDefaults(t, `updateStrategy: {schedule: {}}`)
	often.Spec.UpdateStrategy.Schedule.Windows = make([]v1alpha1.ScheduleWindow, 25)
	answer = handler(t, stored{}).Handle(t.Context(), request(t, admissionv1.Create, often, nil))
	assert.Equal(t, "updateStrategy.schedule.windows has 25 entries: use at most 24", answer.Result.Message)
}

// Valid settings that probably do not do what their author means are warnings, also under a cluster policy.
func TestRemarksAreWarnings(t *testing.T) {
	answer := handler(t, stored{}).Handle(t.Context(), request(t, admissionv1.Create, aPolicy(t, `{strategy: Node, cpu: {percentile: 90, minAllowed: "250"}}`), nil))
	assert.True(t, answer.Allowed)
	assert.Equal(t, []string{"cpu.minAllowed 250 is more CPU than most nodes have. Write millicores with their unit, e.g. 250m",
		"cpu.percentile: no effect with strategy Node. Remove the fields from the policy"}, answer.Warnings)
}

// A guardrail whose query Prometheus cannot parse, or whose result can never violate it, is refused in each kind of
// object, also for servers of the namespace.
func TestQueriesThatAreNoGuardrailsAreRefused(t *testing.T) {
	for query, want := range map[string]string{
		`sum(rate(http_requests_total{code=~"5.."}[5m]))`: ``,
		`sum(rate(x[5m])) by`:                             `sloGuardrails[errors].query sum(rate(x[5m])) by is not PromQL: 1:20: parse error: unexpected end of input in grouping opts, expected "("; an example is sum(rate(http_requests_total{code=~"5.."}[5m]))`,
		`rate(up)`:                                        `sloGuardrails[errors].query rate(up) is not PromQL: 1:6: parse error: expected type range vector in call to function "rate", got instant vector; an example is `,
		`sum(errs) > > 1`:                                 `sloGuardrails[errors].query sum(errs) > > 1 is not PromQL: 1:13: parse error: unexpected <op:>>; an example is `,
		`up[5m]`:                                          `sloGuardrails[errors].query up[5m] returns a range of samples`,
		`sum(errs) < 0.01`:                                `sloGuardrails[errors].query sum(errs) < 0.01 has no result when `,
		`vector(1)`:                                       `sloGuardrails[errors].query vector(1) reads no series`,
	} {
		answer := admitQuery(t, `{metricsSource: {prometheus: {address: "http://mine:9090"}}}`, query)
		assert.Equal(t, want == "", answer.Allowed, query)
		assert.Empty(t, answer.Warnings)
		if want != "" {
			assert.Contains(t, answer.Result.Message, want)
		}
		settings := aPolicy(t, `{weight: 1}`).Spec.PolicySettings
		settings.SLOGuardrails = []v1alpha1.SLOGuardrail{{Name: "errors", Query: query, Threshold: "1", Comparison: "<"}}
		cluster := &v1alpha1.AttuneDefaults{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultsName}}
		cluster.Spec.PolicySettings = settings
		namespace := &v1alpha1.AttuneNamespaceDefaults{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultsName, Namespace: "shop"}}
		namespace.Spec.PolicySettings = settings
		for _, object := range []runtime.Object{
			cluster, namespace, &v1alpha1.AttuneClusterPolicy{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Spec: v1alpha1.AttuneClusterPolicySpec{PolicySettings: settings}},
		} {
			v := validation.Validate(object, validation.Env{Operator: policy.Operator{SourceNamespaces: []string{"*"}}})
			assert.Equal(t, want != "", len(v.Denied) > 0, "%T: %s", object, query)
			if want != "" {
				sentence := regexp.MustCompile(` \(from the \w+\)`).ReplaceAllString(v.Denied[0].Sentence, "")
				assert.Contains(t, sentence, want)
			}
		}
	}
}

// admitQuery creates a policy with one guardrail in a namespace that may have them.
func admitQuery(t *testing.T, spec, query string) admission.Response {
	p := aPolicy(t, spec)
	p.Spec.SLOGuardrails = []v1alpha1.SLOGuardrail{{Name: "errors", Query: query, Threshold: "1", Comparison: "<"}}
	h := handler(t, stored{})
	h.Operator.SourceNamespaces = []string{"*"}
	return h.Handle(t.Context(), request(t, admissionv1.Create, p, nil))
}

// On a server of the cluster, a namespace reads its own series, with queries of bounded cost.
func TestQueriesBeyondTheirNamespaceAreRefused(t *testing.T) {
	for query, want := range map[string]string{
		`sum(up{namespace="victim"})`:         `sloGuardrails[errors].query sum(up{namespace="victim"}) has the matcher namespace="victim", which excludes its own series: leave it out, attune adds namespace="`,
		`count(label_join(up, "a", "", "b"))`: `sloGuardrails[errors].query count(label_join(up, "a", "", "b")) uses label_join, which guardrails of a namespace may not use`,
		`sum(errs) > > 1`:                     `sloGuardrails[errors].query sum(errs) > > 1 is not PromQL: 1:13: parse error`,
	} {
		answer := admitQuery(t, `{}`, query)
		assert.False(t, answer.Allowed, query)
		assert.Contains(t, answer.Result.Message, want)
	}
	assert.True(t, admitQuery(t, `{}`, `sum(up)`).Allowed)
}

// A regular expression that compiles to many megabytes is not compiled.
func TestExpensivePatternsAreNotCompiled(t *testing.T) {
	var before, after goruntime.MemStats
	goruntime.ReadMemStats(&before)
	answer := admitQuery(t, `{metricsSource: {prometheus: {address: "http://mine:9090"}}}`, `up{a=~"`+strings.Repeat(`\\pL`, 800)+`"}`)
	goruntime.ReadMemStats(&after)
	assert.True(t, answer.Allowed, "its own server compiles it")
	assert.Empty(t, answer.Warnings)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4<<20))
}

// A bound of memory without its unit is refused where it is new. One that is stored in defaults is a warning.
func TestNewMemoryBoundsNeedTheirUnit(t *testing.T) {
	bound := aPolicy(t, `memory: {minAllowed: 512Ki}`)
	v := validation.Validate(bound, validation.Env{})
	require.Len(t, v.Denied, 1)
	assert.Equal(t, "memory.minAllowed 512Ki is less than 1Mi. Add the unit, e.g. 512Mi", v.Denied[0].Sentence)
	defaults := &v1alpha1.AttuneDefaults{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultsName}}
	defaults.Spec.Memory = bound.Spec.Memory
	assert.Len(t, validation.Validate(defaults, validation.Env{}).Denied, 1)
	const remark = " is less than 1Mi. Add the unit, e.g. 512Mi. Until then attune requests at least 4Mi"
	v = validation.Validate(aPolicy(t, `cpu: {percentile: 90}`), validation.Env{Cluster: defaults})
	assert.Equal(t, validation.Verdict{Remarks: []string{"memory.minAllowed 512Ki (from the AttuneDefaults)" + remark}}, v, "attune uses the bound of the defaults")

	// Another field of a stored object can be changed.
	edited := bound.DeepCopy()
	edited.Spec.Weight = new(int32(50))
	answer := handler(t, stored{}).Handle(t.Context(), request(t, admissionv1.Update, edited, bound))
	assert.True(t, answer.Allowed, answer.Result)
	assert.Equal(t, []string{"memory.minAllowed 512Ki" + remark}, answer.Warnings)
	assert.False(t, handler(t, stored{}).Handle(t.Context(), request(t, admissionv1.Create, edited, nil)).Allowed)
}

// TestAnswersKeepTheSourcesOfOthers: an answer names the fields of other levels, but no address, header, parameter,
// label or query of them: any client that reaches the port gets it.
func TestAnswersKeepTheSourcesOfOthers(t *testing.T) {
	const secret = "s3cret"
	for name, settings := range map[string]string{
		"address":   `metricsSource: {prometheus: {address: "` + secret + `"}}`,
		"header":    `metricsSource: {prometheus: {address: "http://a", headers: {"` + secret + ` x": "` + secret + `"}}}`,
		"own":       `metricsSource: {prometheus: {address: "http://` + secret + `", headers: {Host: "` + secret + `"}}}`,
		"no server": `metricsSource: {prometheus: {headers: {A: "` + secret + `"}, queryParameters: {b: "` + secret + `"}}}`,
		"label":     `metricsSource: {labels: {pod: "` + secret + `"}}`,
		"query":     `sloGuardrails: [{name: a, query: "` + secret + `(", threshold: "` + secret + `", comparison: "` + secret + `"}]`,
		"PromQL":    `sloGuardrails: [{name: a, query: "` + secret + ` ` + secret + `", threshold: "1", comparison: LessThan}]`,
		"all":       `{metricsSource: {prometheus: {address: "http://` + secret + `", bearerTokenSecret: {name: ` + secret + `, key: a}}}, memory: {minAllowed: 2Gi}}`,
	} {
		for level, s := range map[string]stored{"cluster": {cluster: clusterDefaults(t, settings)}, "namespace": {namespace: namespaceDefaults(t, settings)}} {
			for allowed, operator := range map[string]policy.Operator{"allowed": {SourceNamespaces: []string{"*"}}, "not allowed": {}} {
				h := handler(t, s)
				h.Operator = operator
				answer, err := json.Marshal(h.Handle(t.Context(), request(t, admissionv1.Create, aPolicy(t, `{memory: {maxAllowed: 1Gi}}`), nil)))
				require.NoError(t, err)
				assert.NotContains(t, string(answer), secret, "%s of %s, %s", name, level, allowed)
				if name == "address" {
					assert.Contains(t, string(answer), "metricsSource.prometheus")
				}
			}
		}
	}
}
