package doctor

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/answers"
	"attune.io/attune/internal/policy"
)

var now = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// of returns the results of one check.
func of(seen *Seen, check string) (all []Result) {
	for _, r := range Examine(seen).Checks {
		if r.Check == check {
			all = append(all, r)
		}
	}
	return all
}

// level returns the level of a check that has one result.
func level(t *testing.T, seen *Seen, check string) Level {
	t.Helper()
	results := of(seen, check)
	require.Len(t, results, 1)
	return results[0].Result
}

func node(name, version string) corev1.Node {
	return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{KubeletVersion: version}}}
}

func TestVersions(t *testing.T) {
	for version, want := range map[string]Level{
		"v1.32.9": Problem, "v1.34.0": OK, "v1.37.2+k3s1": OK, "v1.35.1-eks-abc": OK, "v1.34.0-rc.1": OK, "v2.0.0": OK, "unknown": Unknown,
	} {
		assert.Equal(t, want, level(t, &Seen{Version: version}, "kubernetes"), version)
		assert.Equal(t, want, level(t, &Seen{Nodes: Read[corev1.Node]{Value: []corev1.Node{node("a", version)}}}, "kubelets"), version)
	}
	assert.Equal(t, Problem, level(t, &Seen{Version: "v1.33.0"}, "kubernetes"), "not supported")
	assert.Equal(t, Warning, level(t, &Seen{Nodes: Read[corev1.Node]{Value: []corev1.Node{node("a", "v1.33.0")}}}, "kubelets"))
	assert.Equal(t, Warning, level(t, &Seen{}, "kubelets"), "no nodes")
	mixed := &Seen{Nodes: Read[corev1.Node]{Value: []corev1.Node{node("d", "v1.32.0"), node("c", "v1.32.0"), node("b", "v1.32.0"), node("a", "v1.32.0"), node("e", "v1.33.1")}}}
	results := of(mixed, "kubelets")
	require.Len(t, results, 2)
	assert.Equal(t, "pods are not resized on nodes a, b, c and more: kubelet older than 1.33", results[1].Sentence)
}

func TestDefinitions(t *testing.T) {
	crd := func(name, label string) metav1.PartialObjectMetadata {
		return metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{chartLabel: label}}}
	}
	all := []metav1.PartialObjectMetadata{crd("certificates.cert-manager.io", "")}
	for _, plural := range ours {
		all = append(all, crd(plural+".attune.io", "chart"))
	}
	seen := func(of ...metav1.PartialObjectMetadata) *Seen {
		return &Seen{CRDs: Read[metav1.PartialObjectMetadata]{Value: of}}
	}
	assert.Equal(t, OK, level(t, seen(all...), "crds"))
	assert.Equal(t, Problem, level(t, seen(append(all, crd("tuners.attune.io", "chart"))...), "crds"))
	assert.Equal(t, Problem, level(t, seen(all[:5]...), "crds"))
	assert.Equal(t, Warning, level(t, seen(append(all[:5:5], crd(all[5].Name, ""))...), "crds"))
}

// leading returns a lease that a replica renewed so long ago.
func leading(ago time.Duration) coordinationv1.Lease {
	return coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To("attune-7c9-xyz_1"), LeaseDurationSeconds: ptr.To[int32](15), RenewTime: ptr.To(metav1.NewMicroTime(now.Add(-ago))),
	}}
}

func controller(wanted *int32, ready int32) appsv1.Deployment {
	return appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "attune"}, Status: appsv1.DeploymentStatus{ReadyReplicas: ready},
		Spec: appsv1.DeploymentSpec{Replicas: wanted, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{component: componentController}}}}
}

// installed returns an operator with these Deployments and a leader.
func installed(deployments ...appsv1.Deployment) *Seen {
	return &Seen{Scope: Scope{Now: now, Operator: "attune-system"}, Installed: Installed{
		Deployments: Read[appsv1.Deployment]{Value: deployments}, Leases: Read[coordinationv1.Lease]{Value: []coordinationv1.Lease{leading(15 * time.Second)}},
	}}
}

func TestOperator(t *testing.T) {
	assert.Equal(t, Problem, level(t, &Seen{}, "operator"))
	assert.Equal(t, Problem, level(t, installed(controller(ptr.To[int32](0), 0)), "operator"))
	assert.Equal(t, Problem, level(t, installed(controller(ptr.To[int32](2), 0)), "operator"))
	assert.Equal(t, Warning, level(t, installed(controller(ptr.To[int32](2), 1)), "operator"))
	assert.Equal(t, OK, level(t, installed(controller(nil, 1)), "operator"))

	// A rollout that stands, such as with an image that cannot be pulled, has all old replicas ready.
	stands := controller(ptr.To[int32](2), 2)
	stands.Status.Replicas, stands.Status.UpdatedReplicas = 3, 1
	results := of(installed(stands), "operator")
	require.Len(t, results, 1)
	assert.Equal(t, Warning, results[0].Result)
	assert.Contains(t, results[0].Sentence, "the rollout of Deployment attune is not complete: 1 of its 3 pods have the newest template")
}

// Without the controller, the webhook alone resizes no running pods.
func TestOperatorNeedsAController(t *testing.T) {
	webhook := controller(nil, 1)
	webhook.Name, webhook.Spec.Selector = "attune-webhook", &metav1.LabelSelector{MatchLabels: map[string]string{component: "webhook"}}
	results := of(installed(webhook), "operator")
	require.Len(t, results, 1)
	assert.Equal(t, Problem, results[0].Result)
	assert.Contains(t, results[0].Sentence, "namespace attune-system has no Deployment of attune's controller, only Deployment attune-webhook: no workload is resized")
	assert.Equal(t, OK, level(t, installed(webhook, controller(nil, 1)), "operator"))
	webhook.Spec.Selector, webhook.Labels = nil, map[string]string{component: componentController}
	assert.Equal(t, OK, level(t, installed(webhook), "operator"), "a label of the Deployment itself")
}

// All replicas may be ready without a leader.
func TestOperatorNeedsALeader(t *testing.T) {
	seen := func(leases ...coordinationv1.Lease) *Seen {
		s := installed(controller(nil, 1))
		s.Installed.Leases.Value = leases
		return s
	}
	assert.Equal(t, Problem, level(t, seen(), "operator"), "there is no lease")
	assert.Equal(t, Problem, level(t, seen(leading(15*time.Second+time.Millisecond)), "operator"), "it has ended")
	assert.Equal(t, OK, level(t, seen(leading(-time.Minute)), "operator"), "the clock here is slow")
	for _, spoil := range []func(*coordinationv1.LeaseSpec){
		func(s *coordinationv1.LeaseSpec) { s.HolderIdentity = nil }, func(s *coordinationv1.LeaseSpec) { s.HolderIdentity = ptr.To("") },
		func(s *coordinationv1.LeaseSpec) { s.RenewTime = nil }, func(s *coordinationv1.LeaseSpec) { s.LeaseDurationSeconds = nil },
	} {
		lease := leading(0)
		spoil(&lease.Spec)
		assert.Equal(t, Problem, level(t, seen(lease), "operator"))
	}
	unread := seen()
	unread.Installed.Leases.Err = errors.New("connection refused")
	assert.Equal(t, Unknown, level(t, unread, "operator"))
	unread.Installed.Deployments = Read[appsv1.Deployment]{Err: errors.New("connection refused")}
	unread.Installed.Leases = Read[coordinationv1.Lease]{Value: []coordinationv1.Lease{leading(0)}}
	assert.Equal(t, Unknown, level(t, unread, "operator"))
}

func TestEndpoints(t *testing.T) {
	seen := func(namespace string, slices ...discoveryv1.EndpointSlice) *Seen {
		return &Seen{Scope: Scope{Operator: "attune-system"}, Installed: Installed{Slices: Read[discoveryv1.EndpointSlice]{Value: slices}},
			Admission: Admission{Mutating: Read[admissionv1.MutatingWebhookConfiguration]{Value: []admissionv1.MutatingWebhookConfiguration{{Webhooks: []admissionv1.MutatingWebhook{{
				Name: podWebhook, ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Name: "hook", Namespace: namespace}},
			}}}}}}}
	}
	slice := func(service string, ready *bool, addresses ...string) discoveryv1.EndpointSlice {
		return discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{discoveryv1.LabelServiceName: service}},
			Endpoints: []discoveryv1.Endpoint{{Addresses: addresses, Conditions: discoveryv1.EndpointConditions{Ready: ready}}}}
	}
	assert.Equal(t, OK, level(t, seen("attune-system", slice("hook", nil, "10.0.0.1")), "endpoints"))
	assert.Equal(t, OK, level(t, seen("attune-system", slice("hook", ptr.To(false), "10.0.0.1"), slice("hook", ptr.To(true), "10.0.0.2")), "endpoints"))
	assert.Equal(t, Problem, level(t, seen("attune-system", slice("hook", ptr.To(false), "10.0.0.1"), slice("other", nil, "10.0.0.2")), "endpoints"))
	assert.Equal(t, Unknown, level(t, seen("elsewhere"), "endpoints"))
	assert.Equal(t, Unknown, level(t, &Seen{}, "endpoints"))
}

func TestPolicyEngines(t *testing.T) {
	for resources, sees := range map[string]bool{"pods/resize": true, "*/*": true, "pods/*": true, "*/resize": true, "*": false, "pods": false, "pods/eviction": false} {
		rule := admissionv1.RuleWithOperations{Operations: []admissionv1.OperationType{admissionv1.Update}, Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"*"}, Resources: []string{resources}}}
		seen := func(r admissionv1.RuleWithOperations) *Seen {
			return &Seen{Admission: Admission{Validating: Read[admissionv1.ValidatingWebhookConfiguration]{Value: []admissionv1.ValidatingWebhookConfiguration{
				{ObjectMeta: metav1.ObjectMeta{Name: "kyverno"}, Webhooks: []admissionv1.ValidatingWebhook{{Name: "validate.kyverno.svc", Rules: []admissionv1.RuleWithOperations{r}}}}}}}}
		}
		want := map[bool]Level{true: Warning, false: OK}[sees]
		assert.Equal(t, want, level(t, seen(rule), "engines"), resources)
		rule.Operations = []admissionv1.OperationType{admissionv1.Create}
		assert.Equal(t, OK, level(t, seen(rule), "engines"), "a resize is an update")
	}
}

func policyIn(name, reason string, age time.Duration) v1alpha1.AttunePolicy {
	p := v1alpha1.AttunePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, CreationTimestamp: metav1.NewTime(now.Add(-age))}}
	if reason != "" {
		status := metav1.ConditionFalse
		if reason == v1alpha1.ReasonMonitoring {
			status = metav1.ConditionTrue
		}
		p.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: status, Reason: reason, Message: "why"}}
	}
	return p
}

func TestPoliciesAndTheirUsage(t *testing.T) {
	for _, c := range []struct {
		reason         string
		age            time.Duration
		policies, used Level
	}{
		{v1alpha1.ReasonMonitoring, time.Hour, OK, OK},
		{v1alpha1.ReasonPaused, time.Hour, OK, OK},
		{v1alpha1.ReasonInvalidConfig, time.Hour, Problem, OK},
		{v1alpha1.ReasonStaleData, time.Hour, OK, Problem},
		{v1alpha1.ReasonPrometheusUnavailable, time.Hour, OK, Problem},
		{v1alpha1.ReasonInsufficientData, time.Hour, OK, Warning},
		{"", time.Hour, Problem, Unknown},
		{"", time.Minute, OK, Unknown},
	} {
		seen := &Seen{Scope: Scope{Now: now}, Policies: Read[v1alpha1.AttunePolicy]{Value: []v1alpha1.AttunePolicy{policyIn("api", c.reason, c.age)}}}
		assert.Equal(t, c.policies, level(t, seen, "policies"), c.reason)
		assert.Equal(t, c.used, level(t, seen, "usage"), c.reason)
	}
	assert.Equal(t, Warning, level(t, &Seen{}, "policies"))
	assert.Equal(t, OK, level(t, &Seen{}, "usage"), "there is nothing to measure for")
	stale := &Seen{Policies: Read[v1alpha1.AttunePolicy]{Value: []v1alpha1.AttunePolicy{policyIn("api", v1alpha1.ReasonMonitoring, 0)}},
		Recommendations: Read[v1alpha1.AttuneRecommendation]{Value: []v1alpha1.AttuneRecommendation{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop"},
			Spec: v1alpha1.AttuneRecommendationSpec{Workload: v1alpha1.WorkloadRef{Kind: "Deployment", Name: "web"}, Policy: v1alpha1.PolicyRef{Name: "api"},
				Containers: []v1alpha1.ContainerTarget{{Name: "app", Holds: []v1alpha1.Hold{{Resource: "cpu", Reason: v1alpha1.ReasonStaleData, Message: "the newest step is of yesterday"}}}}},
		}}}}
	assert.Equal(t, []Result{{"usage", Warning, "usage of Deployment/web in namespace shop is stale: the newest step is of yesterday", "kubectl attune explain Deployment/web --namespace shop"}}, of(stale, "usage"))
}

// A stored bound of memory that cannot be meant is a warning: the policy works.
func TestMemoryBoundsWithoutTheirUnit(t *testing.T) {
	p, bound := policyIn("api", v1alpha1.ReasonMonitoring, time.Hour), resource.MustParse("512Ki")
	p.Spec.TargetRef.Kind, p.Spec.Memory = v1alpha1.KindDeployment, &v1alpha1.MemorySettings{}
	p.Spec.Memory.MinAllowed = &bound
	own, err := policy.Resolve(nil, nil, &p)
	require.NoError(t, err)
	p.Status.Conditions[0].Message = "watching 3 workloads; " + strings.Join(own.Remarks(), "; ") // as the policy loop writes it
	seen := &Seen{Scope: Scope{Now: now}, Policies: Read[v1alpha1.AttunePolicy]{Value: []v1alpha1.AttunePolicy{p}}}
	assert.Equal(t, []Result{{"policies", Warning, "policy shop/api: memory.minAllowed 512Ki is less than 1Mi. Add the unit, e.g. 512Mi. Until then attune requests at least 4Mi",
		"kubectl attune status --namespace shop"}}, of(seen, "policies"))
}

// What a usage source lacks is a warning, once for all policies of the source, also while they are ready.
func TestWarningsOfTheUsageSource(t *testing.T) {
	const lacks = "it has no samples of container_oom_events_total"
	first, second := policyIn("api", v1alpha1.ReasonMonitoring, time.Hour), policyIn("web", v1alpha1.ReasonMonitoring, time.Hour)
	for _, p := range []*v1alpha1.AttunePolicy{&first, &second} {
		p.Status.Conditions[0].Message = "watching 3 workloads" + answers.SourceWarning + lacks + "; and 2 more"
	}
	seen := &Seen{Scope: Scope{Now: now}, Policies: Read[v1alpha1.AttunePolicy]{Value: []v1alpha1.AttunePolicy{first, second}}}
	assert.Equal(t, []Result{{"usage", Warning, "warning about a usage source: " + lacks + "; and 2 more", "kubectl describe attunepolicy api --namespace shop"}}, of(seen, "usage"))
}

// What a policy that is ready remarks about itself is a warning: bounds that cannot be meant, and dropped samples with
// their cause. A policy with an invalid bound is not ready.
func TestRemarksOfPolicies(t *testing.T) {
	const bound = "cpu.minAllowed 250 is more CPU than most nodes have. Write millicores with their unit, e.g. 250m"
	const dropped = "container app of Deployment/web: 100 % of the memory samples of the last day were 0 bytes: the kubelet reports no working set. Check the container runtime of the node"
	ready := func(message string) *Seen {
		p := policyIn("api", v1alpha1.ReasonMonitoring, time.Hour)
		p.Status.Conditions[0].Message = "watching 3 workloads" + message
		return &Seen{Scope: Scope{Now: now}, Policies: Read[v1alpha1.AttunePolicy]{Value: []v1alpha1.AttunePolicy{p}}}
	}
	const status = "kubectl attune status --namespace shop"
	assert.Equal(t, OK, level(t, ready(""), "policies"))
	assert.Equal(t, OK, level(t, ready(answers.SourceWarning+"two servers write one series"), "policies"))
	assert.Equal(t, []Result{{"policies", Warning, "policy shop/api: " + bound, status}}, of(ready("; "+bound+answers.SourceWarning+"x; y"), "policies"))
	assert.Equal(t, []Result{{"policies", Warning, "policy shop/api: " + dropped + "; " + bound, status}}, of(ready("; "+dropped+"; "+bound), "policies"))

	invalid := policyIn("api", v1alpha1.ReasonInvalidConfig, time.Hour)
	invalid.Status.Conditions[0].Message = "memory.maxAllowed 512 is less than 1Mi. Add the unit, e.g. 512Mi"
	seen := &Seen{Scope: Scope{Now: now}, Policies: Read[v1alpha1.AttunePolicy]{Value: []v1alpha1.AttunePolicy{invalid}}}
	assert.Equal(t, []Result{{"policies", Problem, "policy shop/api is not ready, InvalidConfig: memory.maxAllowed 512 is less than 1Mi. Add the unit, e.g. 512Mi", status}}, of(seen, "policies"))
}

// The doctor reports every finding of status. It may belong to two checks.
func TestFindingsOfStatusAreTheDoctorsToo(t *testing.T) {
	for _, reason := range []string{v1alpha1.ReasonMonitoring, v1alpha1.ReasonPaused, v1alpha1.ReasonInvalidConfig, v1alpha1.ReasonStaleData, v1alpha1.ReasonInsufficientData, ""} {
		for _, degraded := range []bool{false, true} {
			p := policyIn("api", reason, time.Hour)
			if degraded {
				p.Status.Conditions = append(p.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionTrue, Reason: "TooManyReverts", Message: "3 of 4 resizes were reverted"})
			}
			seen := &Seen{Scope: Scope{Now: now}, Policies: Read[v1alpha1.AttunePolicy]{Value: []v1alpha1.AttunePolicy{p}}}
			results := append(of(seen, "policies"), of(seen, "usage")...)
			problem := slices.ContainsFunc(results, func(r Result) bool { return r.Result == Problem })
			assert.Equal(t, answers.ReadinessOf(&p, now).NeedsPerson, problem, "%s, degraded %v", reason, degraded)
			assert.Equal(t, degraded, slices.ContainsFunc(results, func(r Result) bool {
				return r == Result{"policies", Problem, "policy shop/api is degraded, TooManyReverts: 3 of 4 resizes were reverted", "kubectl attune status --namespace shop"}
			}), reason)
		}
	}
	unknown := policyIn("api", v1alpha1.ReasonMonitoring, time.Hour)
	unknown.Status.Conditions[0].Status = metav1.ConditionUnknown
	assert.Equal(t, Problem, level(t, &Seen{Scope: Scope{Now: now}, Policies: Read[v1alpha1.AttunePolicy]{Value: []v1alpha1.AttunePolicy{unknown}}}, "policies"))
}

// If the policy only observes or recommends, the VPA is the only working autoscaler, and no command stops it.
func TestVerticalAutoscalers(t *testing.T) {
	seen := func(mode v1alpha1.UpdateType, update string) *Seen {
		return &Seen{
			Recommendations: Read[v1alpha1.AttuneRecommendation]{Value: []v1alpha1.AttuneRecommendation{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"},
				Spec: v1alpha1.AttuneRecommendationSpec{Workload: v1alpha1.WorkloadRef{Kind: "Deployment", Name: "web"}, Policy: v1alpha1.PolicyRef{Name: "api"}, Mode: mode}}}},
			Neighbours: Neighbours{VPAs: Read[unstructured.Unstructured]{Value: []unstructured.Unstructured{{Object: map[string]any{
				"metadata": map[string]any{"namespace": "shop", "name": "sizer"},
				"spec":     map[string]any{"targetRef": map[string]any{"kind": "Deployment", "name": "web"}, "updatePolicy": map[string]any{"updateMode": update}},
			}}}}},
		}
	}
	for _, mode := range []v1alpha1.UpdateType{v1alpha1.UpdateObserve, v1alpha1.UpdateRecommend} {
		assert.Equal(t, []Result{{"vpa", OK, "VerticalPodAutoscaler sizer manages Deployment/web in namespace shop, and policy api in mode " + string(mode) +
			" changes no pods: change updateStrategy.type of the policy before you stop the VerticalPodAutoscaler", ""}}, of(seen(mode, "Auto"), "vpa"))
	}
	for _, mode := range []v1alpha1.UpdateType{v1alpha1.UpdateInitial, v1alpha1.UpdateOneShot, v1alpha1.UpdateCanary, v1alpha1.UpdateAuto} {
		results := of(seen(mode, "Auto"), "vpa")
		require.Len(t, results, 1)
		assert.Equal(t, Warning, results[0].Result, mode)
		assert.Contains(t, results[0].Command, "kubectl patch verticalpodautoscaler sizer --namespace shop ")
	}
	assert.Equal(t, []Result{{"vpa", OK, "no VerticalPodAutoscaler manages a workload of a policy", ""}}, of(seen(v1alpha1.UpdateRecommend, "Off"), "vpa"))
	many := seen(v1alpha1.UpdateRecommend, "Auto")
	for range most {
		many.Recommendations.Value = append(many.Recommendations.Value, many.Recommendations.Value[0])
	}
	results := of(many, "vpa")
	require.Len(t, results, most+1)
	assert.Equal(t, "and 1 more of this kind", results[most].Sentence)
}

func TestQuotas(t *testing.T) {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web", Controller: ptr.To(true)}}},
		Spec:   corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("100m")}}}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	seen := func(used string, holds ...v1alpha1.Hold) *Seen {
		return &Seen{
			Recommendations: Read[v1alpha1.AttuneRecommendation]{Value: []v1alpha1.AttuneRecommendation{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"},
				Spec: v1alpha1.AttuneRecommendationSpec{Workload: v1alpha1.WorkloadRef{Kind: "StatefulSet", Name: "web"},
					Containers: []v1alpha1.ContainerTarget{{Name: "app", Target: v1alpha1.Resources{CPURequest: ptr.To(resource.MustParse("300m"))}, Holds: holds}}}}}},
			Neighbours: Neighbours{Pods: Read[corev1.Pod]{Value: []corev1.Pod{pod}}, Quotas: Read[corev1.ResourceQuota]{Value: []corev1.ResourceQuota{{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "q"},
				Status:     corev1.ResourceQuotaStatus{Hard: corev1.ResourceList{"requests.cpu": resource.MustParse("1"), "pods": resource.MustParse("1")}, Used: corev1.ResourceList{"requests.cpu": resource.MustParse(used), "pods": resource.MustParse("1")}},
			}}}},
		}
	}
	assert.Equal(t, OK, level(t, seen("800m"), "quota"))
	assert.Equal(t, []Result{{"quota", Warning, "quota q in namespace shop has 199m left for requests.cpu, but StatefulSet/web needs 200m more for its targets", "kubectl edit resourcequota q --namespace shop"}}, of(seen("801m"), "quota"))
	assert.Equal(t, OK, level(t, seen("801m", v1alpha1.Hold{Resource: "cpu", Reason: "HPA"}), "quota"))
}

// An object that cannot be read never gives ok, whatever it is and however reading it fails.
func TestUnreadValuesAreUnknown(t *testing.T) {
	for _, err := range []error{errors.New("connection refused"), &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "X"}}} {
		seen := &Seen{Version: "v1.35.0"}
		seen.Nodes.Err, seen.CRDs.Err, seen.Namespaces.Err = err, err, err
		seen.Policies.Err, seen.Recommendations.Err = err, err
		seen.Installed.Deployments.Err, seen.Installed.Slices.Err, seen.Installed.Leases.Err = err, err, err
		seen.Admission.Mutating.Err, seen.Admission.Validating.Err, seen.Admission.Policies.Err = err, err, err
		seen.Neighbours.HPAs.Err, seen.Neighbours.Quotas.Err, seen.Neighbours.Pods.Err, seen.Neighbours.VPAs.Err = err, err, err, err
		seen.Workloads.Deployments.Err, seen.Workloads.StatefulSets.Err, seen.Workloads.DaemonSets.Err = err, err, err
		seen.Rights = []Right{{Verb: "list", Resource: "pods", Err: err}}
		for _, r := range Examine(seen).Checks {
			if r.Check == "kubernetes" || r.Check == "vpa" && meta.IsNoMatchError(err) {
				assert.Equal(t, OK, r.Result, "there are no VPAs where their kind is not known")
				continue
			}
			assert.Equal(t, Unknown, r.Result, r.Check)
		}
	}
}

func TestACheckHasABound(t *testing.T) {
	var many []v1alpha1.AttunePolicy
	for i := range 40 {
		many = append(many, policyIn(fmt.Sprint("p", i), v1alpha1.ReasonInvalidConfig, time.Hour))
	}
	results := of(&Seen{Policies: Read[v1alpha1.AttunePolicy]{Value: many}}, "policies")
	require.Len(t, results, most+1)
	assert.Equal(t, "and 35 more of this kind", results[most].Sentence)
}

func TestTheAnswerIs100ColumnsWide(t *testing.T) {
	sentence := strings.Repeat("größe ", 60)
	out, err := Answer{Checks: []Result{{"certificate", Unknown, sentence, "kubectl version"}}, Unknown: 1}.Human(false)
	require.NoError(t, err)
	lines := strings.Split(out, "\n")
	for _, line := range lines {
		assert.LessOrEqual(t, len([]rune(line)), 100)
	}
	assert.Equal(t, "0 ok, 0 warnings, 0 problems, 1 unknown", lines[len(lines)-2])
}

// Users run the commands of one answer in order, so each creates its own ClusterRole.
func TestEveryGrantHasItsOwnRole(t *testing.T) {
	for _, namespace := range []string{"", "shop"} {
		// Rights of one purpose, verb and namespace are one command.
		type command struct{ purpose, verb, namespace string }
		of := map[string]command{}
		for _, r := range Needed(Scope{Namespace: namespace, Operator: "attune-system"}) {
			f := &findings{check: "rights"}
			rights(&Seen{Rights: []Right{r}}, f)
			require.Len(t, f.of, 1)
			role, its := strings.Fields(f.of[0].Command)[3], command{r.For, r.Verb, r.Namespace}
			assert.NotContains(t, role, "--", "each purpose has a word")
			before, there := of[role]
			assert.True(t, !there || before == its, "%s is for %s, and for %s", role, before, its)
			of[role] = its
		}
	}
}

// A namespace that the webhook excludes is not sized with the label, and does not need it.
func TestNamespacesThatTheWebhookExcludes(t *testing.T) {
	operator := controller(nil, 1)
	operator.Spec.Template.Spec.Containers = []corev1.Container{{Args: []string{"controller", "--webhook-excluded-namespaces=shop,bank"}}}
	namespace := func(name string, labelled bool) corev1.Namespace {
		of := corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if labelled {
			of.Labels = map[string]string{v1alpha1.InjectLabel: v1alpha1.InjectEnabled}
		}
		return of
	}
	policy := func(namespace string) v1alpha1.AttunePolicy {
		p := v1alpha1.AttunePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "api"}}
		p.Status.Mode = v1alpha1.UpdateAuto
		return p
	}
	for name, c := range map[string]struct {
		namespace corev1.Namespace
		operator  appsv1.Deployment
		want      []Result
	}{
		"excluded, and labelled": {namespace("shop", true), operator, []Result{{"namespaces", Warning, "namespace shop has the label attune.io/inject=enabled, but its new pods are not sized: " +
			"the chart's webhook.excludedNamespaces contains the namespace", "kubectl label namespace shop attune.io/inject-"}}},
		"excluded, without the label": {namespace("shop", false), operator, []Result{{"namespaces", Warning, "policy shop/api sizes new pods, but they keep the resources of their template: " +
			"the chart's webhook.excludedNamespaces contains the namespace", "kubectl get mutatingwebhookconfigurations --output yaml"}}},
		"attune's own": {namespace("attune-system", true), operator, []Result{{"namespaces", Warning, "namespace attune-system has the label attune.io/inject=enabled, but its new pods are not sized: " +
			"the webhook excludes kube-system, kube-node-lease and attune's own namespace", "kubectl label namespace attune-system attune.io/inject-"}}},
		"not excluded": {namespace("shop", true), controller(nil, 1), []Result{{"namespaces", OK, "all namespaces where policies size new pods have the label", ""}}},
	} {
		t.Run(name, func(t *testing.T) {
			seen := installed(c.operator)
			seen.Namespaces.Value = []corev1.Namespace{c.namespace}
			seen.Policies.Value = []v1alpha1.AttunePolicy{policy(c.namespace.Name)}
			assert.Equal(t, c.want, of(seen, "namespaces"))
		})
	}

	// A label with another value selects nothing.
	disabled := namespace("shop", true)
	disabled.Labels[v1alpha1.InjectLabel] = "disabled"
	other := installed(controller(nil, 1))
	other.Namespaces.Value = []corev1.Namespace{disabled}
	other.Policies.Value = []v1alpha1.AttunePolicy{policy("shop")}
	results := of(other, "namespaces")
	require.Len(t, results, 1)
	assert.Equal(t, Warning, results[0].Result)
	assert.Contains(t, results[0].Sentence, "does not have the label attune.io/inject=enabled")

	// A cluster policy selects excluded namespaces too, and a label would change nothing there.
	p := v1alpha1.AttuneClusterPolicy{ObjectMeta: metav1.ObjectMeta{Name: "base"}}
	p.Status.Mode = v1alpha1.UpdateAuto
	seen := installed(operator)
	seen.ClusterPolicies = []v1alpha1.AttuneClusterPolicy{p}
	seen.Namespaces.Value = []corev1.Namespace{namespace("shop", false), namespace("depot", true)}
	assert.Equal(t, OK, level(t, seen, "namespaces"))
}

// The namespaces that a cluster policy selects give one finding, however many have no label.
func TestNamespacesOfAClusterPolicy(t *testing.T) {
	p := v1alpha1.AttuneClusterPolicy{ObjectMeta: metav1.ObjectMeta{Name: "base"}}
	p.Status.Mode = v1alpha1.UpdateAuto
	p.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonMonitoring}}
	namespace := func(name string, labelled bool) corev1.Namespace {
		of := corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if labelled {
			of.Labels = map[string]string{v1alpha1.InjectLabel: v1alpha1.InjectEnabled}
		}
		return of
	}
	seen := &Seen{Scope: Scope{Operator: "attune-system"}, ClusterPolicies: []v1alpha1.AttuneClusterPolicy{p}}
	seen.Namespaces.Value = []corev1.Namespace{namespace("attune-system", false), namespace("kube-system", false), namespace("shop", true)}
	assert.Equal(t, OK, level(t, seen, "namespaces"), "the excluded ones need no label")
	assert.Equal(t, OK, level(t, seen, "policies"), "a cluster policy is one")

	seen.Namespaces.Value = append(seen.Namespaces.Value, namespace("bank", false), namespace("depot", false))
	results := of(seen, "namespaces")
	require.Len(t, results, 1)
	assert.Equal(t, Warning, results[0].Result)
	assert.Equal(t, "policy AttuneClusterPolicy/base sizes new pods, but selects namespaces bank, depot without the label attune.io/inject=enabled: new pods there keep the resources of their template", results[0].Sentence)

	seen.ClusterPolicies[0].Status.Mode = v1alpha1.UpdateRecommend
	assert.Equal(t, OK, level(t, seen, "namespaces"))
	seen.ClusterPolicies[0].Status.Conditions[0].Status, seen.ClusterPolicies[0].Status.Conditions[0].Reason = metav1.ConditionFalse, v1alpha1.ReasonInvalidConfig
	assert.Equal(t, Problem, level(t, seen, "policies"))
}

// With webhook.namespaces: AllButDisabled no namespace needs a label. A policy that sizes new pods has no effect on them
// where the label says disabled; a cluster policy may leave out namespaces by this label.
func TestNamespacesUnderAllButDisabled(t *testing.T) {
	operator := controller(nil, 1)
	operator.Spec.Template.Spec.Containers = []corev1.Container{{Args: []string{"--webhook-namespaces=AllButDisabled"}}}
	seen := installed(operator)
	own := v1alpha1.AttunePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "api"}}
	own.Status.Mode = v1alpha1.UpdateAuto
	base := v1alpha1.AttuneClusterPolicy{ObjectMeta: metav1.ObjectMeta{Name: "base"}}
	base.Status.Mode = v1alpha1.UpdateAuto
	seen.Policies.Value, seen.ClusterPolicies = []v1alpha1.AttunePolicy{own}, []v1alpha1.AttuneClusterPolicy{base}
	namespace := func(name, value string) corev1.Namespace {
		of := corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
		if value != "" {
			of.Labels[v1alpha1.InjectLabel] = value
		}
		return of
	}
	ok := []Result{{"namespaces", OK, "the webhook sizes new pods in all namespaces where policies do (webhook.namespaces: AllButDisabled)", ""}}
	seen.Namespaces.Value = []corev1.Namespace{namespace("shop", ""), namespace("bank", "disabled"), namespace("idle", "enabled"), namespace("kube-system", "")}
	assert.Equal(t, ok, of(seen, "namespaces"))

	seen.Namespaces.Value[0] = namespace("shop", "disabled")
	assert.Equal(t, []Result{{"namespaces", Warning, "policy shop/api sizes new pods, but they keep the resources of their template: the namespace has the label attune.io/inject=disabled. " +
		"Remove the label, or set admission: Disabled", "kubectl label namespace shop attune.io/inject-"}}, of(seen, "namespaces"))

	seen.Policies.Value[0].Status.Admission = v1alpha1.Disabled
	assert.Equal(t, ok, of(seen, "namespaces"), "the policy sizes no new pods")
}

// A policy with admission: Disabled needs no label.
func TestNamespacesOfPoliciesWithoutAdmission(t *testing.T) {
	seen := installed(controller(nil, 1))
	own := v1alpha1.AttunePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "api"}}
	own.Status.Mode, own.Status.Admission = v1alpha1.UpdateAuto, v1alpha1.Disabled
	base := v1alpha1.AttuneClusterPolicy{ObjectMeta: metav1.ObjectMeta{Name: "base"}}
	base.Status.Mode, base.Status.Admission = v1alpha1.UpdateAuto, v1alpha1.Disabled
	seen.Policies.Value, seen.ClusterPolicies = []v1alpha1.AttunePolicy{own}, []v1alpha1.AttuneClusterPolicy{base}
	seen.Namespaces.Value = []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, {ObjectMeta: metav1.ObjectMeta{Name: "bank"}}}
	assert.Equal(t, OK, level(t, seen, "namespaces"))
	seen.Policies.Value[0].Status.Admission = ""
	assert.Equal(t, Warning, level(t, seen, "namespaces"))

	// A user who labelled a namespace disabled has decided: a cluster policy does not ask for the label there.
	seen.Policies.Value, seen.ClusterPolicies[0].Status.Admission = nil, ""
	assert.Equal(t, Warning, level(t, seen, "namespaces"))
	for i := range seen.Namespaces.Value {
		seen.Namespaces.Value[i].Labels = map[string]string{v1alpha1.InjectLabel: v1alpha1.InjectDisabled}
	}
	assert.Equal(t, OK, level(t, seen, "namespaces"))
}

// Without a running operator, what it stored may be out of date: checks of it are unknown, and say since when. The check
// of the operator itself is a problem.
func TestStoredStateIsUnknownWhileTheOperatorIsNotRunning(t *testing.T) {
	seen := installed(controller(nil, 1))
	seen.Policies.Value = []v1alpha1.AttunePolicy{policyIn("api", v1alpha1.ReasonMonitoring, time.Hour)}
	stored := []string{"policies", "usage", "quota"}
	for _, check := range stored {
		assert.Equal(t, OK, level(t, seen, check), check)
	}

	seen.Installed.Leases.Value = []coordinationv1.Lease{leading(time.Hour)}
	const since = "operator not running since 2026-03-02T11:00:00Z (last renewal of lease attune-system/attune.attune.io)"
	assert.Equal(t, []Result{{"operator", Problem, since + ": attune does not measure, recommend, resize or restore",
		"kubectl logs --selector app.kubernetes.io/name=attune --namespace attune-system"}}, of(seen, "operator"))
	assert.Equal(t, []Result{{"policies", Unknown, since + ". Stored before: all policies are valid (1 policy)", ""}}, of(seen, "policies"))
	for _, check := range stored {
		assert.Equal(t, Unknown, level(t, seen, check), check)
	}
	assert.Equal(t, Unknown, Examine(seen).Checks[0].Result, "kubernetes does not depend on it, and has no version here")

	// A failure that was stored before may be over.
	seen.Policies.Value = []v1alpha1.AttunePolicy{policyIn("api", v1alpha1.ReasonStaleData, time.Hour)}
	assert.Equal(t, Unknown, level(t, seen, "usage"))

	// The clock here is ahead: the lease was renewed between two reads.
	seen.Installed.Renewed = true
	assert.Equal(t, []Result{{"operator", Warning, "the operator renews lease attune-system/attune.attune.io, but the local clock shows 2026-03-02T12:00:00Z and the lease 2026-03-02T11:00:00Z: ages are wrong. Correct the clock", "date -u"}}, of(seen, "operator"))
	assert.Equal(t, Problem, level(t, seen, "usage"))

	// A lease that cannot be read says nothing about stored state.
	seen.Installed.Leases = Read[coordinationv1.Lease]{Err: errors.New("EOF")}
	assert.Equal(t, Unknown, level(t, seen, "operator"))
	assert.Equal(t, Problem, level(t, seen, "usage"))
}

// labelledAs returns a namespace with the webhook's label and others.
func labelledAs(name string, more map[string]string) corev1.Namespace {
	of := map[string]string{v1alpha1.InjectLabel: v1alpha1.InjectEnabled, corev1.LabelMetadataName: name}
	maps.Copy(of, more)
	return corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: of}}
}

// B38: the admissions enforcer of AKS adds expressions to the namespaceSelector of every webhook. Namespaces with one of
// its labels are not selected, although they have attune's.
func TestLiveSelectorsAgainstLabelledNamespaces(t *testing.T) {
	aks := &metav1.LabelSelector{
		MatchLabels: map[string]string{v1alpha1.InjectLabel: v1alpha1.InjectEnabled},
		MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"kube-system", "attune-system"}},
			{Key: "control-plane", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"true"}},
			{Key: "kubernetes.azure.com/managedby", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"aks"}},
		},
	}
	seen := func(change func(*admissionv1.MutatingWebhook, *admissionv1.ValidatingWebhook), namespaces ...corev1.Namespace) *Seen {
		pods := admissionv1.MutatingWebhook{Name: podWebhook, NamespaceSelector: aks, ObjectSelector: &metav1.LabelSelector{}, FailurePolicy: ptr.To(admissionv1.Ignore), TimeoutSeconds: ptr.To[int32](2)}
		settings := admissionv1.ValidatingWebhook{Name: settingsWebhook, FailurePolicy: ptr.To(admissionv1.Fail), TimeoutSeconds: ptr.To[int32](5)}
		if change != nil {
			change(&pods, &settings)
		}
		s := installed(controller(nil, 1))
		s.Admission.Mutating.Value = []admissionv1.MutatingWebhookConfiguration{{Webhooks: []admissionv1.MutatingWebhook{{Name: "other"}, pods}}}
		s.Admission.Validating.Value = []admissionv1.ValidatingWebhookConfiguration{{Webhooks: []admissionv1.ValidatingWebhook{settings}}}
		s.Namespaces.Value = namespaces
		return s
	}
	shop, bank := labelledAs("shop", map[string]string{"control-plane": "true"}), labelledAs("bank", nil)
	const show = "kubectl get mutatingwebhookconfigurations --output yaml"
	assert.Equal(t, []Result{{"selectors", OK, "the live webhooks select all labelled namespaces", ""}}, of(seen(nil, bank), "selectors"))
	assert.Equal(t, []Result{{"selectors", Warning, "namespace shop has the label attune.io/inject=enabled, but the live webhook pods.attune.io does not select it, because of its expression " +
		"control-plane NotIn true: new pods keep the resources of their templates. Remove the namespace's label that the expression excludes, or the expression", show}}, of(seen(nil, bank, shop), "selectors"))
	assert.Equal(t, OK, level(t, seen(nil, labelledAs("kube-system", nil)), "selectors"), "the check namespaces reports it")

	// With AllButDisabled there may be many such namespaces, so that each expression is one finding.
	all := seen(func(p *admissionv1.MutatingWebhook, _ *admissionv1.ValidatingWebhook) {
		p.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: aks.MatchExpressions}
	}, corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "depot", Labels: map[string]string{"control-plane": "true"}}}, shop, bank)
	all.Installed.Deployments.Value[0].Spec.Template.Spec.Containers = []corev1.Container{{Args: []string{"--webhook-namespaces=AllButDisabled"}}}
	assert.Equal(t, []Result{{"selectors", Warning, "the chart's webhook.namespaces is AllButDisabled, but the live webhook pods.attune.io does not select namespaces depot, shop, because of its expression " +
		"control-plane NotIn true: new pods there keep the resources of their templates. If policies are to size them, remove the namespace's label that the expression excludes, or the expression", show}}, of(all, "selectors"))
	all.Namespaces.Value = all.Namespaces.Value[2:]
	assert.Equal(t, []Result{{"selectors", OK, "the live webhooks select all namespaces in which attune sizes new pods", ""}}, of(all, "selectors"))

	// A probe goes to a namespace that the webhook selects.
	policy, pod := seen(nil, shop, bank).ProbeNamespaces()
	assert.Equal(t, []string{"bank", "bank"}, []string{policy, pod})
	policy, pod = seen(nil, shop).ProbeNamespaces()
	assert.Equal(t, []string{"", ""}, []string{policy, pod})

	for name, c := range map[string]struct {
		change func(*admissionv1.MutatingWebhook, *admissionv1.ValidatingWebhook)
		says   string
	}{
		"another label is required": {func(p *admissionv1.MutatingWebhook, _ *admissionv1.ValidatingWebhook) {
			p.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
		}, "because of its expression team=a"},
		"a selector that cannot be read": {func(p *admissionv1.MutatingWebhook, _ *admissionv1.ValidatingWebhook) {
			p.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
		}, "because of its expression a Near"},
		"an objectSelector": {func(p *admissionv1.MutatingWebhook, _ *admissionv1.ValidatingWebhook) {
			p.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
		}, "has an objectSelector, which the chart does not set (team=a)"},
		"pods fail": {func(p *admissionv1.MutatingWebhook, _ *admissionv1.ValidatingWebhook) {
			p.FailurePolicy = ptr.To(admissionv1.Fail)
		},
			"the failurePolicy of the live webhook pods.attune.io is Fail, the chart's is Ignore"},
		"policies are ignored": {func(_ *admissionv1.MutatingWebhook, s *admissionv1.ValidatingWebhook) {
			s.FailurePolicy = ptr.To(admissionv1.Ignore)
		},
			"the failurePolicy of the live webhook settings.attune.io is Ignore, the chart's is Fail"},
		"slow": {func(p *admissionv1.MutatingWebhook, _ *admissionv1.ValidatingWebhook) {
			p.TimeoutSeconds = ptr.To[int32](30)
		},
			"the timeout of the live webhook pods.attune.io is 30 s"},
	} {
		t.Run(name, func(t *testing.T) {
			results := of(seen(c.change, bank), "selectors")
			require.Len(t, results, 1)
			assert.Equal(t, Warning, results[0].Result)
			assert.Contains(t, results[0].Sentence, c.says)
		})
	}
}

// The chart's webhook.failurePolicy may be Fail: that is no finding, but another live value is.
func TestFailurePolicyOfTheChart(t *testing.T) {
	for live, want := range map[admissionv1.FailurePolicyType]string{
		admissionv1.Fail:   "",
		admissionv1.Ignore: "the failurePolicy of the live webhook pods.attune.io is Ignore, the chart's is Fail: while the webhook cannot be reached, pods are created with the resources of their templates",
	} {
		seen := installed(controller(nil, 1))
		seen.Namespaces.Value = []corev1.Namespace{labelledAs("shop", nil)}
		seen.Admission.Mutating.Value = []admissionv1.MutatingWebhookConfiguration{{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.FailurePolicyAnnotation: "Fail"}},
			Webhooks:   []admissionv1.MutatingWebhook{{Name: podWebhook, FailurePolicy: &live, NamespaceSelector: &metav1.LabelSelector{}, TimeoutSeconds: ptr.To[int32](2)}}}}
		var said []string
		for _, r := range of(seen, "selectors") {
			if strings.Contains(r.Sentence, "failurePolicy") {
				said = append(said, r.Sentence)
			}
		}
		assert.Equal(t, want, strings.Join(said, "\n"))
	}
}

// Only a webhook that was called answers. What its live selectors exclude does not say that it cannot be reached.
func TestProbesThatTheLiveSelectorsExclude(t *testing.T) {
	seen := installed(controller(nil, 1))
	seen.Admission.Mutating.Value = []admissionv1.MutatingWebhookConfiguration{{Webhooks: []admissionv1.MutatingWebhook{{Name: podWebhook, ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}}}}}
	seen.Admission.Validating.Value = []admissionv1.ValidatingWebhookConfiguration{{Webhooks: []admissionv1.ValidatingWebhook{{Name: settingsWebhook, NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"watched": "yes"}}}}}}
	seen.Namespaces.Value = []corev1.Namespace{labelledAs("shop", nil)}
	seen.Probes = Probes{Policy: Probe{Namespace: "shop"}, Pod: Probe{Namespace: "shop"}}
	results := of(seen, "reachable")
	require.Len(t, results, 2)
	assert.Equal(t, []Level{Unknown, Unknown}, []Level{results[0].Result, results[1].Result})
	assert.Contains(t, results[0].Sentence, "its live namespaceSelector does not match namespace shop (watched=yes)")
	assert.Contains(t, results[1].Sentence, "its live objectSelector selects only some pods (team=a)")

	// A pod webhook with failurePolicy Fail returns the error of the call.
	seen.Probes.Pod.Err = errors.New(`Internal error occurred: failed calling webhook "pods.attune.io": tls: failed to verify certificate: x509: certificate signed by unknown authority`)
	results = of(seen, "reachable")
	assert.Equal(t, Problem, results[1].Result)
	assert.Contains(t, results[1].Sentence, "x509: certificate signed by unknown authority")
}

// A rollout that stands is reported with its time and its cause; one that goes on, and workloads without a policy, are not.
func TestRolloutsThatStand(t *testing.T) {
	at := func(ago time.Duration) metav1.Time { return metav1.NewTime(now.Add(-ago)) }
	meta := func(name string, changed time.Duration) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "shop", Name: name, CreationTimestamp: at(1000 * time.Hour), ManagedFields: []metav1.ManagedFieldsEntry{
			{Manager: "helm", Time: ptr.To(at(changed))}, {Manager: "kube-controller-manager", Subresource: "status", Time: ptr.To(at(0))},
		}}
	}
	pod := func(kind, of, name string, created time.Duration) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, CreationTimestamp: at(created),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: of, Controller: ptr.To(true)}}}}
	}
	agent := func(changed time.Duration, updated int32) appsv1.DaemonSet {
		return appsv1.DaemonSet{ObjectMeta: meta("agent", changed), Status: appsv1.DaemonSetStatus{CurrentNumberScheduled: 164, UpdatedNumberScheduled: updated}}
	}
	rec := func(kind v1alpha1.WorkloadKind, name string) v1alpha1.AttuneRecommendation {
		return v1alpha1.AttuneRecommendation{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}, Spec: v1alpha1.AttuneRecommendationSpec{Workload: v1alpha1.WorkloadRef{Kind: kind, Name: name}}}
	}
	seen := func(agents appsv1.DaemonSet, created time.Duration) *Seen {
		s := installed(controller(nil, 1))
		s.Recommendations.Value = []v1alpha1.AttuneRecommendation{rec(v1alpha1.KindDaemonSet, "agent"), rec(v1alpha1.KindStatefulSet, "db"), rec(v1alpha1.KindDeployment, "web")}
		s.Workloads.DaemonSets.Value = []appsv1.DaemonSet{agents}
		s.Neighbours.Pods.Value = []corev1.Pod{pod("DaemonSet", "agent", "agent-1", created), pod("DaemonSet", "agent", "agent-2", 900*time.Hour), pod("StatefulSet", "db", "db-0", 31*time.Minute)}
		return s
	}
	assert.Equal(t, []Result{{"rollouts", Warning, "the rollout of DaemonSet/agent in namespace shop is stuck since 2026-03-02T09:00:00Z: 161 of 164 pods run the newest template",
		"kubectl describe daemonset agent --namespace shop"}}, of(seen(agent(5*time.Hour, 161), 3*time.Hour), "rollouts"))
	assert.Equal(t, OK, level(t, seen(agent(5*time.Hour, 161), 30*time.Minute), "rollouts"), "it creates pods")
	assert.Equal(t, OK, level(t, seen(agent(time.Minute, 161), 3*time.Hour), "rollouts"), "it begins")
	assert.Equal(t, OK, level(t, seen(agent(5*time.Hour, 164), 3*time.Hour), "rollouts"), "it is complete")
	other := seen(agent(5*time.Hour, 161), 3*time.Hour)
	other.Recommendations.Value = other.Recommendations.Value[1:]
	assert.Equal(t, OK, level(t, other, "rollouts"), "no policy selects it")

	done := seen(agent(5*time.Hour, 164), 3*time.Hour)
	done.Workloads.StatefulSets.Value = []appsv1.StatefulSet{{ObjectMeta: meta("db", 40*time.Minute), Spec: appsv1.StatefulSetSpec{UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}},
		Status: appsv1.StatefulSetStatus{Replicas: 3, UpdatedReplicas: 1, CurrentRevision: "a", UpdateRevision: "b"}}}
	assert.Contains(t, of(done, "rollouts")[0].Sentence, "StatefulSet/db in namespace shop is stuck since 2026-03-02T11:29:00Z: 1 of 3 pods run the newest template; updateStrategy OnDelete")

	// The deadline of a Deployment is shorter, and its message names the ReplicaSet.
	done.Workloads.StatefulSets.Value = nil
	done.Workloads.Deployments.Value = []appsv1.Deployment{{ObjectMeta: meta("web", 11*time.Minute), Status: appsv1.DeploymentStatus{Replicas: 3, UpdatedReplicas: 1, Conditions: []appsv1.DeploymentCondition{
		{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded", Message: `ReplicaSet "web-5f" has timed out progressing.`}}}}}
	assert.Contains(t, of(done, "rollouts")[0].Sentence, `Deployment/web in namespace shop is stuck since 2026-03-02T11:49:00Z: 1 of 3 pods run the newest template; the Deployment made no progress within progressDeadlineSeconds; ReplicaSet "web-5f" has timed out progressing.`)

	done.Workloads.Deployments = Read[appsv1.Deployment]{Cut: true}
	assert.Equal(t, []Level{Unknown}, []Level{of(done, "rollouts")[0].Result}, "not all were read")
}

// Pods that were rejected or did not start with admission resources are reported for each workload.
func TestWithdrawnAdmission(t *testing.T) {
	seen := installed(controller(nil, 1))
	rec := v1alpha1.AttuneRecommendation{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}, Spec: v1alpha1.AttuneRecommendationSpec{Workload: v1alpha1.WorkloadRef{Kind: v1alpha1.KindDeployment, Name: "web"}}}
	assert.Equal(t, OK, level(t, seen, "admission"))
	rec.Status.AdmissionWithdrawn = &v1alpha1.AdmissionWithdrawn{Since: metav1.NewTime(now.Add(-time.Hour)), Reason: v1alpha1.ReasonAdmissionRejected, Message: `admission webhook "kyverno" denied the request`}
	seen.Recommendations.Value = []v1alpha1.AttuneRecommendation{rec}
	assert.Equal(t, []Result{{"admission", Warning, `new pods of Deployment/web in namespace shop keep the resources of their template since 2026-03-02T11:00:00Z, AdmissionRejected: admission webhook "kyverno" denied the request`,
		"kubectl attune explain Deployment/web --namespace shop"}}, of(seen, "admission"))
}
