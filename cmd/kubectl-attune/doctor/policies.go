package doctor

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/cmd/kubectl-attune/output"
	"attune.io/attune/internal/answers"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
)

// usageReasons are the reasons of policies that are not ready because of their usage. The check usage reports them.
var usageReasons = []string{v1alpha1.ReasonStaleData, v1alpha1.ReasonPrometheusUnavailable, v1alpha1.ReasonInsufficientData, v1alpha1.ReasonUsageImplausible}

// policies reports policies that need attention (answers.ReadinessOf), except because of their usage.
func policies(seen *Seen, f *findings) {
	if f.unreadable("AttunePolicies", seen.Policies.Err) {
		return
	}
	all := seen.policies()
	for _, p := range all {
		ready := answers.ReadinessOf(p, seen.Now)
		status := "kubectl attune status --namespace " + p.Namespace
		if policy.OfCluster(p) {
			status = "kubectl attune status --all-namespaces"
		}
		degraded := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionDegraded)
		if degraded != nil && degraded.Status == metav1.ConditionTrue {
			f.add(Problem, status, "policy %s is degraded, %s: %s", named(p), degraded.Reason, degraded.Message)
		}
		switch {
		case !ready.NeedsPerson || slices.Contains(usageReasons, ready.Reason):
		case ready.Ready == string(metav1.ConditionUnknown) && seen.Now.Sub(p.CreationTimestamp.Time) > answers.UnseenGrace:
			f.add(Problem, "kubectl logs --selector "+Selector+"="+SelectorValue+" --namespace "+seen.Scope.Operator,
				"the operator has not reconciled policy %s since it was created", named(p))
		case ready.Ready == string(metav1.ConditionFalse) && ready.Reason != v1alpha1.ReasonPaused:
			f.add(Problem, status, "policy %s is not ready, %s: %s", named(p), ready.Reason, ready.Message)
		}
		if c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady); c != nil {
			if remarks, _ := answers.Remarks(c); remarks != "" {
				f.add(Warning, status, "policy %s: %s", named(p), remarks)
			}
		}
	}
	if len(all) == 0 {
		f.add(Warning, "kubectl attune wizard", "no policies found in %s: attune manages no workload there", output.Where(seen.Namespace))
	}
	f.fine("all policies are valid (%s)", answers.Counted(len(all), "policy"))
}

// policies returns the policies of the scope, and the cluster policies.
func (s *Seen) policies() []*v1alpha1.AttunePolicy {
	return append(s.Policies.all(), podview.Map(podview.Pointers(s.ClusterPolicies), policy.AsPolicy)...)
}

// named returns the name of a policy in a finding.
func named(p *v1alpha1.AttunePolicy) string {
	if policy.OfCluster(p) {
		return p.Name
	}
	return p.Namespace + "/" + p.Name
}

// usage checks that usage is measured, by the conditions of policies and the holds of recommendations.
func usage(seen *Seen, f *findings) {
	unread := f.unreadable("AttunePolicies", seen.Policies.Err)
	if f.unreadable("AttuneRecommendations", seen.Recommendations.Err) || unread {
		return
	}
	stale, reconciled := map[string]bool{}, false
	all := seen.policies()
	for _, p := range all {
		ready := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
		stale[named(p)], reconciled = ready != nil && unusable(p, ready, f), reconciled || ready != nil
	}
	for _, rec := range seen.Recommendations.all() {
		hold := staleHold(rec)
		if hold == nil || stale[rec.Namespace+"/"+policy.NameOf(rec.Spec.Policy)] || stale[policy.NameOf(rec.Spec.Policy)] {
			continue
		}
		id := workload.IdentityOf(rec)
		f.add(Warning, "kubectl attune explain "+id.String()+" --namespace "+id.Namespace, "usage of %s in namespace %s is stale: %s", id, id.Namespace, hold.Message)
	}
	if len(all) == 0 {
		f.fine("no usage data is needed without a policy")
	} else if !reconciled {
		f.add(Unknown, "", "usage is not known yet: the operator has not reconciled a policy")
	}
	f.fine("usage data is up to date for all policies")
}

// unusable reports whether a policy is not ready because of its usage, and adds that finding, or the warnings about its
// usage source. The policies of a source have the same warnings.
func unusable(p *v1alpha1.AttunePolicy, ready *metav1.Condition, f *findings) bool {
	describe := "kubectl describe attunepolicy " + p.Name + " --namespace " + p.Namespace
	if name, ok := policy.ClusterName(p.Name); ok {
		describe = "kubectl describe attuneclusterpolicy " + name
	}
	if ready.Status == metav1.ConditionFalse && slices.Contains(usageReasons, ready.Reason) {
		level := Problem
		if ready.Reason == v1alpha1.ReasonInsufficientData {
			level = Warning
		}
		f.add(level, describe, "policy %s has no usable usage data, %s: %s", named(p), ready.Reason, ready.Message)
		return true
	}
	if _, warning := answers.Remarks(ready); warning != "" {
		sentence := "warning about a usage source: " + warning
		if !slices.ContainsFunc(f.of, func(r Result) bool { return r.Sentence == sentence }) {
			f.add(Warning, describe, "%s", sentence)
		}
	}
	return false
}

// staleHold returns the first hold because of stale usage, or nil.
func staleHold(rec *v1alpha1.AttuneRecommendation) *v1alpha1.Hold {
	for _, c := range rec.Spec.Containers {
		if hold := podview.FirstIn(c.Holds, func(h *v1alpha1.Hold) bool { return h.Reason == v1alpha1.ReasonStaleData }); hold != nil {
			return hold
		}
	}
	return nil
}

// namespaces checks that namespaces with policies that size new pods have the label for it, and the other way round.
func namespaces(seen *Seen, f *findings) {
	unread := f.unreadable("namespaces", seen.Namespaces.Err)
	if f.unreadable("AttunePolicies", seen.Policies.Err) || unread {
		return
	}
	seeding, any := map[string]string{}, map[string]bool{}
	for _, p := range seen.Policies.all() {
		any[p.Namespace] = true
		if policy.SizesNewPods(p.Status.Mode, p.Status.Admission) && (seeding[p.Namespace] == "" || p.Name < seeding[p.Namespace]) {
			seeding[p.Namespace] = p.Name
		}
	}
	admission := seen.admission()
	for _, p := range seen.ClusterPolicies {
		unlabelled(seen, f, &p, any, admission)
	}
	for _, ns := range seen.Namespaces.all() {
		labels(ns, any[ns.Name], seeding[ns.Name], admission, f)
	}
	if admission.AllButDisabled {
		f.fine("the webhook sizes new pods in all namespaces where policies do (webhook.namespaces: AllButDisabled)")
	}
	f.fine("all namespaces where policies size new pods have the label")
}

// labels checks the label of one namespace: selected reports whether a policy selects it, sizing is its first policy that
// sizes new pods.
func labels(ns *corev1.Namespace, selected bool, sizing string, admission workload.Admission, f *findings) {
	const enabled = v1alpha1.InjectLabel + "=" + v1alpha1.InjectEnabled
	labelled, excluded := ns.Labels[v1alpha1.InjectLabel] == v1alpha1.InjectEnabled, admission.Excludes(ns.Name, ns.Labels)
	label := "kubectl label namespace " + ns.Name + " " + v1alpha1.InjectLabel
	switch why := admission.NotSized(ns.Name, ns.Labels); {
	case labelled && excluded != "":
		f.add(Warning, label+"-", "namespace %s has the label %s, but its new pods are not sized: %s", ns.Name, enabled, excluded)
	case excluded != "" && sizing != "":
		f.add(Warning, "kubectl get mutatingwebhookconfigurations --output yaml", "policy %s/%s sizes new pods, but they keep the resources of their template: %s",
			ns.Name, sizing, excluded)
	case labelled && !selected && !admission.AllButDisabled:
		f.add(Warning, label+"-", "namespace %s has the label %s but no policy: remove the label, or create a policy", ns.Name, enabled)
	case why != "" && sizing != "" && admission.AllButDisabled:
		f.add(Warning, label+"-", "policy %s/%s sizes new pods, but they keep the resources of their template: %s. Remove the label, or set admission: Disabled", ns.Name, sizing, why)
	case why != "" && sizing != "":
		f.add(Warning, label+"="+v1alpha1.InjectEnabled, "policy %s/%s sizes new pods, but its namespace does not have the label %s: new pods keep the resources of their template",
			ns.Name, sizing, enabled)
	}
}

// admission returns where the webhook sizes new pods.
func (s *Seen) admission() workload.Admission {
	return workload.AdmissionOf(s.Scope.Operator, s.arguments())
}

// arguments returns those of the operator's Deployments.
func (s *Seen) arguments() (args []string) {
	for _, d := range s.Installed.Deployments.all() {
		for _, c := range d.Spec.Template.Spec.Containers {
			args = append(args, c.Args...)
		}
	}
	return args
}

// unlabelled checks that the namespaces that a cluster policy selects have the label, if they need one, and adds them to
// selected. It adds one finding, however many there are.
func unlabelled(seen *Seen, f *findings, p *v1alpha1.AttuneClusterPolicy, selected map[string]bool, admission workload.Admission) {
	scope, _ := policy.ScopeOf(p, seen.Scope.Operator)
	var missing []string
	for _, ns := range seen.Namespaces.all() {
		if !scope.Selects(ns.Name, ns.Labels) {
			continue
		}
		selected[ns.Name] = true
		if admission.Lacks(ns.Name, ns.Labels) {
			missing = append(missing, ns.Name)
		}
	}
	if len(missing) > 0 && policy.SizesNewPods(p.Status.Mode, p.Status.Admission) {
		f.add(Warning, "kubectl label namespace "+missing[0]+" "+v1alpha1.InjectLabel+"="+v1alpha1.InjectEnabled,
			"policy %s sizes new pods, but selects %s without the label %s=%s: new pods there keep the resources of their template",
			policy.InstanceName(p.Name), listed("namespace", missing), v1alpha1.InjectLabel, v1alpha1.InjectEnabled)
	}
}
