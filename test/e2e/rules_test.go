package e2e

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lateDefaults has a LimitRange come after a pod: a resize of anything brings its defaults in.
func lateDefaults(t *testing.T) {
	const ns = "defaults"
	namespace(t.Context(), t, ns, false)
	first := idle(size{})
	first.Name, first.Args, first.ReadinessProbe = "first", []string{"hold-memory"}, nil // ends when it is told no more
	p := runPod(t, newPod(ns, "late", 1, idle(size{cpu: "10m", memory: "16Mi"}), func(p *corev1.Pod) { p.Spec.InitContainers = []corev1.Container{first} }))
	require.NoError(t, env.client.Create(t.Context(), &corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "defaults"},
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type:           corev1.LimitTypeContainer,
			Default:        corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m")},
			DefaultRequest: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m")},
		}}},
	}))
	cpu := 10
	var refused error
	eventually(t, "the API server knows of them", func() error {
		cpu++
		err := ask(t, p, "app", size{cpu: fmt.Sprintf("%dm", cpu)})
		if !kubeletsAre(t, 36) && err != nil {
			refused = err
			return nil
		}
		require.NoError(t, err, "from 1.36 on an ended init container is no hindrance")
		if got := sizeOf(p.Spec.Containers[0].Resources); got.cpuLimit == "" {
			return fmt.Errorf("it has %v", got)
		}
		return nil
	})
	if refused != nil {
		require.True(t, apierrors.IsForbidden(refused) || apierrors.IsInvalid(refused), "%v", refused)
		return
	}
	assert.Equal(t, size{cpu: fmt.Sprintf("%dm", cpu), memory: "16Mi", cpuLimit: "500m"}, sizeOf(p.Spec.Containers[0].Resources), "55: a limit that nobody asked for")
	assert.Equal(t, size{cpu: "50m", cpuLimit: "500m"}, sizeOf(p.Spec.InitContainers[0].Resources), "in every container")
	eventually(t, "carried out", func() error { return settled(t, p) })
}

func resourceClaims(t *testing.T) {
	p := createPod(t, newPod(probes, "claims", 1, idle(size{cpu: "10m", memory: "16Mi"}), func(p *corev1.Pod) {
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "device", ResourceClaimName: ptr.To("there-is-none")}}
		p.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "device"}}
	}))
	err := ask(t, p, "app", size{cpu: "20m"})
	if serverIs(t, 37) {
		require.NoError(t, err, "from 1.37 on they are no hindrance")
		return
	}
	require.True(t, apierrors.IsInvalid(err), "%v", err)
	assert.ErrorContains(t, err, "only cpu and memory resources are mutable")
}

// forbid has an admission policy of the cluster's deny updates of something in a namespace.
func forbid(t *testing.T, ns, name, what string) {
	t.Helper()
	named := metav1.ObjectMeta{Name: ns + "-" + name}
	where := &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: ns}}
	require.NoError(t, env.client.Create(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: named,
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{
				NamespaceSelector: where,
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{what}},
				}}},
			},
			Validations: []admissionregistrationv1.Validation{{Expression: "false", Message: "not on Fridays"}},
		},
	}))
	require.NoError(t, env.client.Create(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: named,
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: named.Name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}))
}

// admissionPolicies shows that one on pods does not see /resize.
func admissionPolicies(t *testing.T) {
	const ns = "forbidden"
	namespace(t.Context(), t, ns, false)
	p := createPod(t, newPod(ns, "pod", 1, idle(size{cpu: "10m", memory: "16Mi"})))
	forbid(t, ns, "pods", "pods")
	eventually(t, "pods may not be updated", func() error {
		before := p.DeepCopy()
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, "tried", fmt.Sprint(p.ResourceVersion))
		return denied(env.client.Patch(t.Context(), p, client.MergeFrom(before)))
	})
	require.NoError(t, see(t, p))
	require.NoError(t, ask(t, p, "app", size{cpu: "20m"}), "a resize passes that by")
}

func denied(err error) error {
	if err == nil {
		return errors.New("it was not denied")
	}
	if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
		return fmt.Errorf("denied otherwise: %w", err)
	}
	return nil
}

// TestForbiddenResize (60): an admission policy of the cluster's denies resizes. Nothing changes, the
// history says why, and it is not asked again in a hurry.
func TestForbiddenResize(t *testing.T) {
	ctx := need(t)
	namespace(ctx, t, "barred", true)
	d, p := started(t, "barred", 1, idle(fittingMemory))
	forbid(t, "barred", "resizes", "pods/resize")
	byHand := createPod(t, newPod("barred", "by-hand", 1, idle(size{cpu: "10m", memory: "16Mi"})))
	cpu := 10
	eventually(t, "nobody may resize", func() error {
		cpu++
		return denied(ask(t, byHand.DeepCopy(), "app", size{cpu: fmt.Sprintf("%dm", cpu)}))
	})
	fit(t, d)
	eventually(t, "refused", func() error { return told(ctx, d, "Failed", "AdmissionPolicy") })
	require.NoError(t, hasSpec(t, p, fittingMemory))
	assert.Equal(t, int64(1), p.Generation)
	// The finalizer goes in the pass after the one that closed the record.
	eventually(t, "closed", func() error {
		rec, err := recommendation(ctx, d)
		if err == nil && len(rec.Finalizers) > 0 {
			err = fmt.Errorf("finalizers %v", rec.Finalizers)
		}
		return err
	})
	rec, err := recommendation(ctx, d)
	require.NoError(t, err)
	assert.Len(t, rec.Status.History, 1, "asked once")
	assert.Equal(t, int64(1), p.Generation)
}
