package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	labelset "k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/clip"
)

// probeName is the name of the objects that the doctor creates as dry runs. The API server stores none of them.
const probeName = "attune-doctor-probe"

// Probes are the answers of the API server to the dry-run creations of PolicyProbe and PodProbe.
type Probes struct {
	// Policy and Pod have the namespace of their probe; it is empty if there was no probe.
	Policy, Pod Probe
}

// Probe is the answer to one dry-run creation.
type Probe struct {
	Namespace string
	// Answered is true if the created object has the answer of the webhook.
	Answered bool
	Err      error
}

// PolicyProbe returns a policy that the schema accepts and the webhook settings.attune.io rejects: an error of the webhook
// shows that the API server reached it, and no error that it did not call it.
func PolicyProbe(namespace string) *v1alpha1.AttunePolicy {
	p := &v1alpha1.AttunePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: probeName}}
	p.Spec.TargetRef.Kind = v1alpha1.KindDeployment
	p.Spec.UpdateStrategy = &v1alpha1.UpdateStrategy{Type: ptr.To(v1alpha1.UpdateObserve), Schedule: &v1alpha1.Schedule{Timezone: "Attune/DoctorProbe"}}
	return p
}

// PodProbe returns a pod that the webhook pods.attune.io answers in a dry run (v1alpha1.ProbeAnnotation). It meets the Pod
// Security Standard "restricted" and has requests and limits, so that other admission has no reason to reject it. Its owner
// does not exist: the webhook is called only for pods with a controller.
func PodProbe(namespace string) *corev1.Pod {
	amounts := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m"), corev1.ResourceMemory: resource.MustParse("4Mi")}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: probeName,
			Annotations:     map[string]string{v1alpha1.ProbeAnnotation: v1alpha1.ProbeAsked},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: string(v1alpha1.KindReplicaSet), Name: probeName, UID: "6174746e-0000-4000-8000-70726f626500", Controller: ptr.To(true)}},
		},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: ptr.To(false),
			SecurityContext:              &corev1.PodSecurityContext{RunAsNonRoot: ptr.To(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers: []corev1.Container{{
				Name: "probe", Image: "registry.k8s.io/pause:3.10", Resources: corev1.ResourceRequirements{Requests: amounts, Limits: amounts},
				SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: ptr.To(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
			}},
		},
	}
}

// ProbeNamespaces returns the namespaces for the probes; empty: no probe. The policy's is the scope, or one with a policy,
// or one with the label; the pod's is the first labelled one that the live webhook selects.
func (s *Seen) ProbeNamespaces() (policy, pod string) {
	live, admission := s.Admission.podHook(), s.admission()
	for _, ns := range s.Namespaces.all() {
		if admission.NotSized(ns.Name, ns.Labels) == "" && ns.DeletionTimestamp == nil && (live == nil || unmatched(live.NamespaceSelector, ns.Labels) == "") && (pod == "" || ns.Name < pod) {
			pod = ns.Name
		}
	}
	policy = s.Scope.Namespace
	if all := s.Policies.Value; policy == "" && len(all) > 0 {
		policy = all[0].Namespace
	}
	if policy == "" {
		policy = pod
	}
	return policy, pod
}

// reachable checks by dry runs that the API server reaches the webhooks.
func reachable(seen *Seen, f *findings) {
	if len(seen.Admission.own()) == 0 && seen.Admission.Mutating.Err == nil && seen.Admission.Validating.Err == nil {
		f.add(Unknown, "", "no webhook to call: no webhook of attune is configured")
		return
	}
	policyAnswered(seen, f)
	podAnswered(seen, f)
	f.fine("the API server reaches the webhooks pods.attune.io and settings.attune.io")
}

// look is what to check if the API server cannot call a webhook.
const look = "check that a NetworkPolicy or firewall lets the API server reach port 9443 of the webhook's pods, and the CA bundle. " +
	"If the control plane is outside of the pod network, the webhook needs hostNetwork"

// endpointsCommand shows the addresses that the API server calls.
func (s *Seen) endpointsCommand() string {
	return "kubectl get endpointslices --namespace " + s.Scope.Operator
}

// policyAnswered judges the probe of the webhook settings.attune.io, which rejects it.
func policyAnswered(seen *Seen, f *findings) {
	probe, denied := seen.Probes.Policy, `admission webhook "`+settingsWebhook+`" denied the request`
	switch {
	case probe.Namespace == "":
		f.add(Unknown, "", "settings.attune.io was not called: use -n with a namespace")
	case probe.Err == nil && seen.notMatched(probe.Namespace) != "":
		f.add(Unknown, "", "settings.attune.io was not called: its live namespaceSelector does not match namespace %s (%s)", probe.Namespace, seen.notMatched(probe.Namespace))
	case probe.Err == nil:
		f.add(Problem, "kubectl get validatingwebhookconfigurations --output yaml", "the API server accepted an invalid AttunePolicy (dry run in namespace %s): it did not call the webhook settings.attune.io, or ignored that it cannot be reached. "+
			"Invalid policies are not rejected: %s", probe.Namespace, look)
	case strings.Contains(probe.Err.Error(), denied):
	default:
		unanswered(seen, f, settingsWebhook, "attunepolicies."+v1alpha1.GroupVersion.Group, probe)
	}
}

// notMatched returns the expression by which the webhook settings.attune.io does not select a namespace, or "".
func (s *Seen) notMatched(namespace string) string {
	for _, c := range s.Admission.Validating.all() {
		for i := range c.Webhooks {
			if c.Webhooks[i].Name != settingsWebhook {
				continue
			}
			for _, ns := range s.Namespaces.all() {
				if ns.Name == namespace {
					return unmatched(c.Webhooks[i].NamespaceSelector, ns.Labels)
				}
			}
		}
	}
	return ""
}

// podAnswered judges the probe of the webhook pods.attune.io, which marks it.
func podAnswered(seen *Seen, f *findings) {
	probe := seen.Probes.Pod
	switch live := seen.Admission.podHook(); {
	case probe.Namespace == "" && f.unreadable("namespaces", seen.Namespaces.Err):
	case probe.Namespace == "":
		f.add(Unknown, "", "pods.attune.io was not called: no namespace of the scope has the label %s=%s and is selected by the live webhook", v1alpha1.InjectLabel, v1alpha1.InjectEnabled)
	case probe.Err != nil:
		unanswered(seen, f, podWebhook, "pods", probe)
	case !probe.Answered && live != nil && unmatched(live.ObjectSelector, nil) != "":
		f.add(Unknown, "", "pods.attune.io was not called: its live objectSelector selects only some pods (%s)", unmatched(live.ObjectSelector, nil))
	case !probe.Answered:
		f.add(Problem, seen.endpointsCommand(), "the webhook pods.attune.io did not answer a dry-run pod in namespace %s: new pods keep the resources of their templates. Use the plugin of the operator's version; "+look, probe.Namespace)
	}
}

// unanswered adds the error of a probe: the webhook cannot be called, the user has no right to create the object, or
// another cause, which says nothing about the webhook.
func unanswered(seen *Seen, f *findings, webhook, resource string, probe Probe) {
	text := clip.Text(probe.Err.Error(), 512)
	switch {
	case strings.Contains(text, `failed calling webhook "`+webhook+`"`):
		f.add(Problem, seen.endpointsCommand(), "the API server cannot call the webhook %s: %s; %s", webhook, text, look)
	case apierrors.IsForbidden(probe.Err) && strings.Contains(text, "cannot create resource"):
		f.add(Unknown, grant("attune-doctor-probe-"+strings.Split(resource, ".")[0], "create", resource, probe.Namespace),
			"%s was not called: missing permission to create %s in namespace %s (dry run)", webhook, resource, probe.Namespace)
	case meta.IsNoMatchError(probe.Err):
		f.add(Unknown, "", "%s was not called: the API server does not serve %s", webhook, resource)
	default:
		f.add(Unknown, "", "%s may not have been called: the dry run in namespace %s failed: %s", webhook, probe.Namespace, text)
	}
}

// podHook returns the live webhook for pods, or nil.
func (a *Admission) podHook() *admissionv1.MutatingWebhook {
	for _, c := range a.Mutating.all() {
		for i := range c.Webhooks {
			if c.Webhooks[i].Name == podWebhook {
				return &c.Webhooks[i]
			}
		}
	}
	return nil
}

// failurePolicy returns the chart's webhook.failurePolicy.
func (a *Admission) failurePolicy() admissionv1.FailurePolicyType {
	for _, c := range a.Mutating.all() {
		if slices.ContainsFunc(c.Webhooks, func(w admissionv1.MutatingWebhook) bool { return w.Name == podWebhook }) {
			return admissionv1.FailurePolicyType(cmp.Or(c.Annotations[v1alpha1.FailurePolicyAnnotation], string(admissionv1.Ignore)))
		}
	}
	return admissionv1.Ignore
}

// longest is the timeout of attune's webhooks in seconds from which the creation of pods and policies becomes slow while
// they cannot be reached. The chart has 2 and 5.
const longest = 10

// selectors checks the live configurations of the webhooks: other programs change them, such as the admissions enforcer of
// AKS, which adds expressions to the namespaceSelector.
func selectors(seen *Seen, f *findings) {
	unread := f.unreadable("MutatingWebhookConfigurations", seen.Admission.Mutating.Err)
	if f.unreadable("namespaces", seen.Namespaces.Err) || unread {
		return
	}
	live := seen.Admission.podHook()
	if live == nil {
		f.add(Unknown, "", "no selector to check: the webhook %s is not configured", podWebhook)
		return
	}
	const show = "kubectl get mutatingwebhookconfigurations --output yaml"
	admission, missed := seen.admission(), map[string][]string{}
	for _, ns := range seen.Namespaces.all() {
		if admission.NotSized(ns.Name, ns.Labels) != "" { // the check namespaces reports what it has to
			continue
		}
		switch why := unmatched(live.NamespaceSelector, ns.Labels); {
		case why == "":
		case admission.AllButDisabled:
			missed[why] = append(missed[why], ns.Name)
		default:
			f.add(Warning, show, "namespace %s has the label %s=%s, but the live webhook %s does not select it, because of its expression %s: new pods keep the resources of their templates. "+
				"Remove the namespace's label that the expression excludes, or the expression", ns.Name, v1alpha1.InjectLabel, v1alpha1.InjectEnabled, podWebhook, why)
		}
	}
	for _, why := range slices.Sorted(maps.Keys(missed)) { // there may be many, and the cluster's own among them
		f.add(Warning, show, "the chart's webhook.namespaces is AllButDisabled, but the live webhook %s does not select %s, because of its expression %s: new pods there keep the resources of their templates. "+
			"If policies are to size them, remove the namespace's label that the expression excludes, or the expression", podWebhook, listed("namespace", missed[why]), why)
	}
	if why := unmatched(live.ObjectSelector, nil); why != "" {
		f.add(Warning, show, "the live webhook %s has an objectSelector, which the chart does not set (%s): pods that it does not select keep the resources of their templates", podWebhook, why)
	}
	switch p, of := ptr.Deref(live.FailurePolicy, admissionv1.Ignore), seen.Admission.failurePolicy(); {
	case p == of:
	case p == admissionv1.Ignore:
		f.add(Warning, show, "the failurePolicy of the live webhook %s is %s, the chart's is %s: while the webhook cannot be reached, pods are created with the resources of their templates", podWebhook, p, of)
	default:
		f.add(Warning, show, "the failurePolicy of the live webhook %s is %s, the chart's is %s: while the webhook cannot be reached, no pod can be created in the namespaces that it selects", podWebhook, p, of)
	}
	timeouts(podWebhook, live.TimeoutSeconds, show, f)
	settingsOf(seen, f)
	if admission.AllButDisabled {
		f.fine("the live webhooks select all namespaces in which attune sizes new pods")
	}
	f.fine("the live webhooks select all labelled namespaces")
}

// settingsOf checks the live webhook settings.attune.io.
func settingsOf(seen *Seen, f *findings) {
	const show = "kubectl get validatingwebhookconfigurations --output yaml"
	for _, c := range seen.Admission.Validating.all() {
		for i := range c.Webhooks {
			w := &c.Webhooks[i]
			if w.Name != settingsWebhook {
				continue
			}
			if p := ptr.Deref(w.FailurePolicy, admissionv1.Fail); p != admissionv1.Fail {
				f.add(Warning, show, "the failurePolicy of the live webhook %s is %s, the chart's is Fail: while the webhook cannot be reached, invalid policies are accepted", settingsWebhook, p)
			}
			timeouts(settingsWebhook, w.TimeoutSeconds, show, f)
		}
	}
}

// timeouts checks the live timeout of a webhook.
func timeouts(webhook string, seconds *int32, show string, f *findings) {
	if s := ptr.Deref(seconds, longest); s > longest {
		f.add(Warning, show, "the timeout of the live webhook %s is %d s: each creation takes so long while the webhook cannot be reached", webhook, s)
	}
}

// unmatched returns the first part of a selector that a set of labels does not match, such as "control-plane DoesNotExist";
// empty if all match. A selector that cannot be read matches nothing.
func unmatched(selector *metav1.LabelSelector, of map[string]string) string {
	if selector == nil {
		return ""
	}
	keys := make([]string, 0, len(selector.MatchLabels))
	for key := range selector.MatchLabels {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		if value, has := of[key]; !has || value != selector.MatchLabels[key] {
			return key + "=" + selector.MatchLabels[key]
		}
	}
	for _, e := range selector.MatchExpressions {
		text := strings.TrimSpace(fmt.Sprintf("%s %s %s", e.Key, e.Operator, strings.Join(e.Values, ",")))
		one, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{e}})
		if err != nil || !one.Matches(labelset.Set(of)) {
			return text
		}
	}
	return ""
}
