package integration

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"attune.io/attune/api/v1alpha1"
)

// samples are valid values of the types whose values obey a rule. What is not here is filled by its
// kind, so a new field takes part without a line of its own.
var samples = map[reflect.Type]any{
	reflect.TypeFor[resource.Quantity]():           resource.MustParse("1500m"),
	reflect.TypeFor[v1alpha1.Duration]():           duration(time.Hour),
	reflect.TypeFor[metav1.Time]():                 metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)),
	reflect.TypeFor[intstr.IntOrString]():          intstr.FromString("25%"),
	reflect.TypeFor[metav1.Condition]():            metav1.Condition{Type: "Ready", Status: "True", Reason: "Monitoring", Message: "fine", ObservedGeneration: 1, LastTransitionTime: metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local))},
	reflect.TypeFor[metav1.LabelSelector]():        metav1.LabelSelector{MatchLabels: map[string]string{"tier": "api"}, MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "In", Values: []string{"b"}}}},
	reflect.TypeFor[v1alpha1.TargetRef]():          v1alpha1.TargetRef{Kind: v1alpha1.KindDeployment, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "api"}}},
	reflect.TypeFor[v1alpha1.WorkloadKind]():       v1alpha1.KindCronJob,
	reflect.TypeFor[v1alpha1.PolicyKind]():         v1alpha1.PolicyKindCluster,
	reflect.TypeFor[v1alpha1.Profile]():            v1alpha1.ProfileCost,
	reflect.TypeFor[v1alpha1.Strategy]():           v1alpha1.StrategyAdaptive,
	reflect.TypeFor[v1alpha1.Percent]():            v1alpha1.Percent("12.5"),
	reflect.TypeFor[v1alpha1.Decimal]():            v1alpha1.Decimal("1.5"),
	reflect.TypeFor[v1alpha1.SignedDecimal]():      v1alpha1.SignedDecimal("-0.5"),
	reflect.TypeFor[v1alpha1.Comparison]():         v1alpha1.Comparison("<="),
	reflect.TypeFor[v1alpha1.ControlledValues]():   v1alpha1.ControlledRequestsOnly,
	reflect.TypeFor[v1alpha1.CPULimits]():          v1alpha1.CPULimits{JSON: `"Keep"`},
	reflect.TypeFor[v1alpha1.HPAHandling]():        v1alpha1.HPABlock,
	reflect.TypeFor[v1alpha1.ContainerMode]():      v1alpha1.ContainerOff,
	reflect.TypeFor[v1alpha1.ControlledResource](): v1alpha1.ControlledMemory,
	reflect.TypeFor[v1alpha1.UpdateType]():         v1alpha1.UpdateCanary,
	reflect.TypeFor[v1alpha1.ResizeMethod]():       v1alpha1.ResizeInPlaceOrRecreate,
	reflect.TypeFor[v1alpha1.ScheduleWindow]():     v1alpha1.ScheduleWindow{Start: "22:00", End: "06:30"},
	reflect.TypeFor[v1alpha1.Weekday]():            v1alpha1.Weekday("Sunday"),
	reflect.TypeFor[v1alpha1.Switch]():             v1alpha1.Enabled,
	reflect.TypeFor[v1alpha1.EvictionRanking]():    v1alpha1.RankingHigh,
	reflect.TypeFor[v1alpha1.Risk]():               v1alpha1.RiskHigh,
	reflect.TypeFor[v1alpha1.RaiseBeforeKill]():    v1alpha1.RaiseOff,
	reflect.TypeFor[*v1alpha1.BasicAuth]():         (*v1alpha1.BasicAuth)(nil), // not with bearerTokenSecret
}

// numbers are valid values of fields that a plain 1 does not suit; texts likewise.
var (
	numbers = map[string]int64{"Percentile": 90}
	texts   = map[string]string{"Address": "https://prometheus.monitoring:9090/path", "Resource": "memory"}
)

func duration(d time.Duration) v1alpha1.Duration {
	var value v1alpha1.Duration
	value.Duration.Duration = d
	return value
}

// fill sets every field of a value to something valid.
func fill(v reflect.Value, name string) {
	if sample, ok := samples[v.Type()]; ok {
		v.Set(reflect.ValueOf(sample))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), name)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), v.Type().Field(i).Name)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), name)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key").Convert(v.Type().Key()), reflect.ValueOf("value").Convert(v.Type().Elem()))
	case reflect.String:
		v.SetString(orElse(texts, name, "text"))
	case reflect.Uint8:
		v.SetUint(1)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64:
		v.SetInt(orElse(numbers, name, 1))
	default:
		panic(fmt.Sprintf("no sample for the field %s of type %s", name, v.Type()))
	}
}

func orElse[T any](samples map[string]T, name string, otherwise T) T {
	if sample, ok := samples[name]; ok {
		return sample
	}
	return otherwise
}

// many are n filled values, each changed to differ where it must.
func many[T any](n int, change func(i int, value *T)) []T {
	values := make([]T, n)
	for i := range values {
		values[i] = filled[T]()
		change(i, &values[i])
	}
	return values
}

func filled[T any]() T {
	var value T
	fill(reflect.ValueOf(&value).Elem(), "")
	return value
}

// filledClusterPolicy names no server: a cluster policy has none.
func filledClusterPolicy() v1alpha1.AttuneClusterPolicySpec {
	spec := filled[v1alpha1.AttuneClusterPolicySpec]()
	spec.MetricsSource.Prometheus = nil
	return spec
}

// TestRoundTrip: what goes in with every field set comes out the same, spec and status.
func TestRoundTrip(t *testing.T) {
	c := newClient(t)
	namespace := newNamespace(t, c)
	meta := metav1.ObjectMeta{Name: v1alpha1.DefaultsName, Namespace: namespace}

	t.Run("AttunePolicy", func(t *testing.T) {
		p := &v1alpha1.AttunePolicy{ObjectMeta: meta, Spec: filled[v1alpha1.AttunePolicySpec]()}
		require.NoError(t, c.Create(t.Context(), p))
		p.Status = filled[v1alpha1.AttunePolicyStatus]()
		require.NoError(t, c.Status().Update(t.Context(), p))
		got := &v1alpha1.AttunePolicy{}
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(p), got))
		assert.Empty(t, cmp.Diff(filled[v1alpha1.AttunePolicySpec](), got.Spec))
		assert.Empty(t, cmp.Diff(filled[v1alpha1.AttunePolicyStatus](), got.Status))
	})
	t.Run("AttuneClusterPolicy", func(t *testing.T) {
		p := &v1alpha1.AttuneClusterPolicy{ObjectMeta: metav1.ObjectMeta{Name: namespace}, Spec: filledClusterPolicy()}
		require.NoError(t, c.Create(t.Context(), p))
		t.Cleanup(func() { require.NoError(t, c.Delete(context.WithoutCancel(t.Context()), p)) })
		p.Status = filled[v1alpha1.AttuneClusterPolicyStatus]()
		require.NoError(t, c.Status().Update(t.Context(), p))
		got := &v1alpha1.AttuneClusterPolicy{}
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(p), got))
		assert.Empty(t, cmp.Diff(filledClusterPolicy(), got.Spec))
		assert.Empty(t, cmp.Diff(filled[v1alpha1.AttuneClusterPolicyStatus](), got.Status))
	})
	t.Run("BasicAuth", func(t *testing.T) {
		p := &v1alpha1.AttunePolicy{ObjectMeta: meta, Spec: v1alpha1.AttunePolicySpec{TargetRef: v1alpha1.TargetRef{Kind: "Job", Name: "import"}}}
		p.Name = "basic"
		auth := filled[v1alpha1.BasicAuth]()
		p.Spec.MetricsSource = &v1alpha1.MetricsSource{Prometheus: &v1alpha1.PrometheusSource{BasicAuth: &auth}}
		want := p.Spec.DeepCopy()
		require.NoError(t, c.Create(t.Context(), p))
		assert.Empty(t, cmp.Diff(*want, p.Spec))
	})
	t.Run("AttuneNamespaceDefaults", func(t *testing.T) {
		d := &v1alpha1.AttuneNamespaceDefaults{ObjectMeta: meta, Spec: filled[v1alpha1.DefaultsSpec]()}
		require.NoError(t, c.Create(t.Context(), d))
		assert.Empty(t, cmp.Diff(filled[v1alpha1.DefaultsSpec](), d.Spec))
	})
	t.Run("AttuneDefaults", func(t *testing.T) {
		d := &v1alpha1.AttuneDefaults{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultsName}, Spec: filled[v1alpha1.DefaultsSpec]()}
		require.NoError(t, c.Create(t.Context(), d, client.DryRunAll))
		assert.Empty(t, cmp.Diff(filled[v1alpha1.DefaultsSpec](), d.Spec))
	})
	t.Run("AttuneRecommendation", func(t *testing.T) {
		r := &v1alpha1.AttuneRecommendation{ObjectMeta: meta, Spec: filled[v1alpha1.AttuneRecommendationSpec]()}
		require.NoError(t, c.Create(t.Context(), r))
		r.Status = filled[v1alpha1.AttuneRecommendationStatus]()
		require.NoError(t, c.Status().Update(t.Context(), r))
		got := &v1alpha1.AttuneRecommendation{}
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(r), got))
		assert.Empty(t, cmp.Diff(filled[v1alpha1.AttuneRecommendationSpec](), got.Spec))
		assert.Empty(t, cmp.Diff(filled[v1alpha1.AttuneRecommendationStatus](), got.Status))
	})
}

// TestDeepCopy: no field is shared or lost, the embedded durations least of all.
func TestDeepCopy(t *testing.T) {
	spec := filled[v1alpha1.AttunePolicySpec]()
	other := spec.DeepCopy()
	assert.Empty(t, cmp.Diff(spec, *other))
	other.UpdateStrategy.Cooldown.Duration.Duration = time.Second
	other.SLOGuardrails[0].Query = "changed"
	other.MetricsSource.Prometheus.Headers["key"] = "changed"
	assert.Empty(t, cmp.Diff(filled[v1alpha1.AttunePolicySpec](), spec))
}

// TestNothingIsAdded: what a user leaves out stays out.
func TestNothingIsAdded(t *testing.T) {
	c := newClient(t)
	for _, u := range []*unstructured.Unstructured{
		policyWith(t, `{}`),
		policyWith(t, `{cpu: {}, memory: {}, updateStrategy: {canary: {}, schedule: {}}, metricsSource: {prometheus: {}}, node: {}, adaptive: {}, excludedContainers: []}`),
		object(t, "AttuneNamespaceDefaults", `{}`),
	} {
		sent := u.DeepCopy().Object["spec"]
		require.NoError(t, c.Create(t.Context(), u, client.DryRunAll))
		assert.Equal(t, sent, u.Object["spec"])
	}
}

// TestStatusIsItsOwn: users' tools cannot write a status, and loops cannot write a spec by accident.
func TestStatusIsItsOwn(t *testing.T) {
	c := newClient(t)
	p := &v1alpha1.AttunePolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: newNamespace(t, c)}}
	p.Spec.TargetRef.Kind = v1alpha1.KindDeployment
	p.Status.Mode = v1alpha1.UpdateAuto
	require.NoError(t, c.Create(t.Context(), p))
	assert.Empty(t, p.Status.Mode)
	assert.EqualValues(t, 1, p.Generation)

	weight := int32(7)
	p.Spec.Weight, p.Status.Mode = &weight, v1alpha1.UpdateAuto
	require.NoError(t, c.Status().Update(t.Context(), p))
	assert.Nil(t, p.Spec.Weight)
	assert.Equal(t, v1alpha1.UpdateAuto, p.Status.Mode)
	assert.EqualValues(t, 1, p.Generation)

	p.Spec.Weight, p.Status.Mode = &weight, v1alpha1.UpdateObserve
	require.NoError(t, c.Update(t.Context(), p))
	assert.Equal(t, v1alpha1.UpdateAuto, p.Status.Mode)
	assert.EqualValues(t, 2, p.Generation)
}

// TestAPatchKeepsTheUsersText: Go writes 168h as 168h0m0s. What the operator patches beside the spec must
// not rewrite it, or every tool that compares with a repository would see a change.
func TestAPatchKeepsTheUsersText(t *testing.T) {
	c := newClient(t)
	u := policyWith(t, `{metricsSource: {historyWindow: 168h}, cpu: {maxAllowed: 4000m}}`)
	u.SetNamespace(newNamespace(t, c))
	require.NoError(t, c.Create(t.Context(), u))

	p := &v1alpha1.AttunePolicy{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(u), p))
	before := p.DeepCopy()
	controllerutil.AddFinalizer(p, v1alpha1.CleanupFinalizer)
	require.NoError(t, c.Patch(t.Context(), p, client.MergeFrom(before)))
	assert.EqualValues(t, 1, p.Generation)

	spec := u.Object["spec"]
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(u), u))
	assert.Equal(t, spec, u.Object["spec"])
	assert.Equal(t, []string{v1alpha1.CleanupFinalizer}, u.GetFinalizers())
}

// TestListsMergeByKey: two teams may each own guardrails of one policy, by server-side apply.
func TestListsMergeByKey(t *testing.T) {
	c := newClient(t)
	namespace := newNamespace(t, c)
	apply := func(owner, spec string) *unstructured.Unstructured {
		u := policyWith(t, spec)
		u.SetNamespace(namespace)
		require.NoError(t, c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(owner)))
		return u
	}
	apply("one", `{sloGuardrails: [{name: errors, query: up, threshold: "1", comparison: "<"}], excludedContainers: [a]}`)
	apply("two", `{sloGuardrails: [{name: latency, query: up, threshold: "2", comparison: "<"}], excludedContainers: [b]}`)

	p := &v1alpha1.AttunePolicy{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: v1alpha1.DefaultsName}, p))
	require.Len(t, p.Spec.SLOGuardrails, 2)
	assert.Equal(t, "errors", p.Spec.SLOGuardrails[0].Name)
	assert.Equal(t, "latency", p.Spec.SLOGuardrails[1].Name)
	assert.Equal(t, []v1alpha1.ContainerName{"a", "b"}, p.Spec.ExcludedContainers)
}

// TestAStaleRecordIsRefused: a record is written before its resize, by the one who saw the last state.
func TestAStaleRecordIsRefused(t *testing.T) {
	c := newClient(t)
	r := &v1alpha1.AttuneRecommendation{ObjectMeta: metav1.ObjectMeta{Name: "r", Namespace: newNamespace(t, c)}, Spec: filled[v1alpha1.AttuneRecommendationSpec]()}
	require.NoError(t, c.Create(t.Context(), r))
	stale := r.DeepCopy()
	r.Status.Phase = v1alpha1.PhaseResizing
	require.NoError(t, c.Status().Update(t.Context(), r))
	stale.Status.Phase = v1alpha1.PhaseIdle
	assert.True(t, apierrors.IsConflict(c.Status().Update(t.Context(), stale)))
}

// TestCaps: the object stays small, however many pods there are.
func TestCaps(t *testing.T) {
	c := newClient(t)
	r := &v1alpha1.AttuneRecommendation{ObjectMeta: metav1.ObjectMeta{Name: "r", Namespace: newNamespace(t, c)}, Spec: filled[v1alpha1.AttuneRecommendationSpec]()}
	require.NoError(t, c.Create(t.Context(), r))
	for name, set := range map[string]func(s *v1alpha1.AttuneRecommendationStatus, n int){
		"records": func(s *v1alpha1.AttuneRecommendationStatus, n int) {
			s.Records = many(n+v1alpha1.MaxRecords, func(i int, x *v1alpha1.ResizeRecord) { x.PodUID = types.UID(fmt.Sprint(i)) })
		},
		"originals": func(s *v1alpha1.AttuneRecommendationStatus, n int) {
			s.Originals = many(n+v1alpha1.MaxOriginals, func(int, *v1alpha1.Originals) {})
		},
		"history": func(s *v1alpha1.AttuneRecommendationStatus, n int) {
			s.History = many(n+v1alpha1.MaxHistory, func(int, *v1alpha1.HistoryEntry) {})
		},
		"badSeeds": func(s *v1alpha1.AttuneRecommendationStatus, n int) {
			s.BadSeeds = many(n+20, func(i int, x *string) { *x = fmt.Sprint(i) })
		},
		"failedStarts": func(s *v1alpha1.AttuneRecommendationStatus, n int) {
			s.FailedStarts = many(n+v1alpha1.MaxFailedStarts, func(int, *v1alpha1.FailedStart) {})
		},
	} {
		t.Run(name, func(t *testing.T) {
			full := r.DeepCopy()
			set(&full.Status, 0)
			require.NoError(t, c.Status().Update(t.Context(), full, client.DryRunAll))
			over := r.DeepCopy()
			set(&over.Status, 1)
			assert.ErrorContains(t, c.Status().Update(t.Context(), over, client.DryRunAll), "status."+name+": Too many")
		})
	}
}
