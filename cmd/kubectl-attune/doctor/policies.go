package doctor

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/held"
	"attune.io/attune/internal/workload"
)

// usageReasons are those of a policy that is not ready because of its usage; every other one is the policy's.
var usageReasons = []string{v1alpha1.ReasonStaleData, v1alpha1.ReasonPrometheusUnavailable, v1alpha1.ReasonInsufficientData}

// policies looks at what needs a person (held.ReadinessOf), but for what concerns usage.
func policies(seen *Seen, f *findings) {
	if f.unreadable("AttunePolicies", seen.Policies.Err) {
		return
	}
	for i := range seen.Policies.Value {
		p := &seen.Policies.Value[i]
		ready := held.ReadinessOf(p, seen.Now)
		status := "kubectl attune status --namespace " + p.Namespace
		degraded := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionDegraded)
		if degraded != nil && degraded.Status == metav1.ConditionTrue {
			f.add(Problem, status, "policy %s/%s is degraded, %s: %s", p.Namespace, p.Name, degraded.Reason, degraded.Message)
		}
		switch {
		case !ready.NeedsPerson || slices.Contains(usageReasons, ready.Reason):
		case ready.Ready == string(metav1.ConditionUnknown) && seen.Now.Sub(p.CreationTimestamp.Time) > held.UnseenGrace:
			f.add(Problem, "kubectl logs --selector "+Selector+"="+SelectorValue+" --namespace "+seen.Scope.Operator,
				"the operator has not looked at policy %s/%s since it was made", p.Namespace, p.Name)
		case ready.Ready == string(metav1.ConditionFalse) && ready.Reason != v1alpha1.ReasonPaused:
			f.add(Problem, status, "policy %s/%s is not ready, %s: %s", p.Namespace, p.Name, ready.Reason, ready.Message)
		}
	}
	if len(seen.Policies.Value) == 0 {
		f.add(Warning, "kubectl apply --filename policy.yaml", "there is no AttunePolicy in %s: attune does nothing there", seen.named())
	}
	f.fine("all %d policies can be used", len(seen.Policies.Value))
}

// usage looks whether usage is measured, by the conditions of policies and the holds of recommendations.
func usage(seen *Seen, f *findings) {
	unread := f.unreadable("AttunePolicies", seen.Policies.Err)
	if f.unreadable("AttuneRecommendations", seen.Recommendations.Err) || unread {
		return
	}
	stale := map[string]bool{}
	for i := range seen.Policies.Value {
		p := &seen.Policies.Value[i]
		ready := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
		if ready == nil || ready.Status != metav1.ConditionFalse || !slices.Contains(usageReasons, ready.Reason) {
			continue
		}
		level := Problem
		if ready.Reason == v1alpha1.ReasonInsufficientData {
			level = Warning
		}
		stale[p.Namespace+"/"+p.Name] = true
		f.add(level, "kubectl describe attunepolicy "+p.Name+" --namespace "+p.Namespace, "policy %s/%s has no usage to rest on, %s: %s", p.Namespace, p.Name, ready.Reason, ready.Message)
	}
	for i := range seen.Recommendations.Value {
		rec := &seen.Recommendations.Value[i]
		hold := staleHold(rec)
		if hold == nil || stale[rec.Namespace+"/"+rec.Spec.Policy.Name] {
			continue
		}
		id := workload.IdentityOf(rec)
		f.add(Warning, "kubectl attune explain "+reference(id), "usage of %s in namespace %s is not fresh: %s", id, id.Namespace, hold.Message)
	}
	if len(seen.Policies.Value) == 0 {
		f.fine("without a policy no usage is needed")
	}
	f.fine("usage is fresh under every policy")
}

// staleHold returns the first hold for want of new usage, or nil.
func staleHold(rec *v1alpha1.AttuneRecommendation) *v1alpha1.Hold {
	for _, c := range rec.Spec.Containers {
		for i := range c.Holds {
			if c.Holds[i].Reason == v1alpha1.ReasonStaleData {
				return &c.Holds[i]
			}
		}
	}
	return nil
}

// reference is a workload as the plugin's verbs take it.
func reference(id workload.Identity) string {
	return id.String() + " --namespace " + id.Namespace
}

// namespaces looks whether the label by which new pods are sized, and policies, are in the same namespaces.
func namespaces(seen *Seen, f *findings) {
	unread := f.unreadable("namespaces", seen.Namespaces.Err)
	if f.unreadable("AttunePolicies", seen.Policies.Err) || unread {
		return
	}
	seeding, any := map[string]string{}, map[string]bool{}
	for i := range seen.Policies.Value {
		p := &seen.Policies.Value[i]
		any[p.Namespace] = true
		if seeds(p.Status.Mode) && (seeding[p.Namespace] == "" || p.Name < seeding[p.Namespace]) {
			seeding[p.Namespace] = p.Name
		}
	}
	for i := range seen.Namespaces.Value {
		ns := &seen.Namespaces.Value[i]
		labelled := ns.Labels[v1alpha1.InjectLabel] == v1alpha1.InjectEnabled
		label := "kubectl label namespace " + ns.Name + " " + v1alpha1.InjectLabel
		switch {
		case labelled && !any[ns.Name]:
			f.add(Warning, label+"-", "namespace %s is labelled %s=%s and has no policy: take the label away, or make a policy", ns.Name, v1alpha1.InjectLabel, v1alpha1.InjectEnabled)
		case !labelled && seeding[ns.Name] != "":
			f.add(Warning, label+"="+v1alpha1.InjectEnabled, "policy %s/%s sizes new pods, and the namespace is not labelled %s=%s: they are created as their template says",
				ns.Name, seeding[ns.Name], v1alpha1.InjectLabel, v1alpha1.InjectEnabled)
		}
	}
	f.fine("namespaces are labelled where policies size new pods")
}

// seeds reports whether new pods are sized in a mode.
func seeds(mode v1alpha1.UpdateType) bool {
	return mode == v1alpha1.UpdateInitial || mode == v1alpha1.UpdateCanary || mode == v1alpha1.UpdateAuto
}
