package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/answers"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/constraint"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// verticalAutoscalers finds VPAs that size the workloads of policies. If the policy does not apply its targets, the
// VPA is the only working autoscaler, and the result has no command that stops it.
func verticalAutoscalers(seen *Seen, f *findings) {
	vpas := seen.Neighbours.VPAs
	if meta.IsNoMatchError(vpas.Err) {
		f.fine("VerticalPodAutoscalers are not installed")
		return
	}
	unread := f.unreadable("VerticalPodAutoscalers", vpas.Err)
	if f.unreadable("AttuneRecommendations", seen.Recommendations.Err) || unread {
		return
	}
	for _, rec := range seen.Recommendations.all() {
		w := workload.Workload{Identity: workload.IdentityOf(rec)}
		for _, vpa := range vpas.all() {
			if vpa.GetNamespace() != w.Namespace || !autoscale.Sizes(vpa, w) {
				continue
			}
			if rec.Spec.Mode == v1alpha1.UpdateObserve || rec.Spec.Mode == v1alpha1.UpdateRecommend {
				f.add(OK, "", "VerticalPodAutoscaler %s manages %s in namespace %s, and policy %s in mode %s changes no pods: change updateStrategy.type of the policy before you stop the VerticalPodAutoscaler",
					vpa.GetName(), w, w.Namespace, policy.NameOf(rec.Spec.Policy), rec.Spec.Mode)
				continue
			}
			if autoscale.Off(vpa) {
				f.add(Warning, "", "VerticalPodAutoscaler %s boosts the CPU of starting pods of %s in namespace %s, so attune does not resize it: remove startupBoost, and set cpu.startupBoost in the policy",
					vpa.GetName(), w, w.Namespace)
				continue
			}
			f.add(Warning, "kubectl patch verticalpodautoscaler "+vpa.GetName()+" --namespace "+w.Namespace+` --type merge --patch '{"spec":{"updatePolicy":{"updateMode":"Off"}}}'`,
				"VerticalPodAutoscaler %s manages %s in namespace %s, so attune does not resize it", vpa.GetName(), w, w.Namespace)
		}
	}
	f.fine("no VerticalPodAutoscaler manages a workload of a policy")
}

// horizontalAutoscalers finds HPAs that scale on a request that a policy would change.
func horizontalAutoscalers(seen *Seen, f *findings) {
	unread := f.unreadable("HorizontalPodAutoscalers", seen.Neighbours.HPAs.Err)
	if f.unreadable("AttuneRecommendations", seen.Recommendations.Err) || unread {
		return
	}
	for _, rec := range seen.Recommendations.all() {
		w := workload.Workload{Identity: workload.IdentityOf(rec)}
		for _, hpa := range seen.Neighbours.HPAs.all() {
			if hpa.Namespace != w.Namespace {
				continue
			}
			for _, b := range autoscale.Bindings(hpa, w) {
				kept := func(t v1alpha1.ContainerTarget) bool {
					return b.Container != "" && b.Container != t.Name || resize.KeptRange(t, b.Resource) != nil
				}
				if all := rec.Spec.Containers; len(all) > 0 && !slices.ContainsFunc(all, func(t v1alpha1.ContainerTarget) bool { return !kept(t) }) {
					continue
				}
				f.add(Warning, "kubectl edit horizontalpodautoscaler "+hpa.Name+" --namespace "+hpa.Namespace,
					"%s of %s in namespace %s is not resized: %s; with a target of type AverageValue, attune can resize it, and with %s.hpa: Keep within the range that keeps the number of replicas",
					b.Resource, w, w.Namespace, b, b.Resource)
			}
		}
	}
	f.fine("no HorizontalPodAutoscaler scales on a request that a policy changes")
}

// quotas checks that the quotas of a namespace have room for the growth of each workload to its targets. It skips
// quotas with scopes, because they count only some pods.
func quotas(seen *Seen, f *findings) {
	unread := f.unreadable("ResourceQuotas", seen.Neighbours.Quotas.Err)
	unread = f.unreadable("pods", seen.Neighbours.Pods.Err) || unread
	if f.unreadable("AttuneRecommendations", seen.Recommendations.Err) || unread {
		return
	}
	growths := seen.growths()
	for _, id := range slices.SortedFunc(maps.Keys(growths), func(a, b workload.Identity) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.String(), b.String()))
	}) {
		for _, q := range seen.Neighbours.Quotas.all() {
			if q.Namespace == id.Namespace && len(q.Spec.Scopes) == 0 && q.Spec.ScopeSelector == nil {
				within(q, id, growths[id], f)
			}
		}
	}
	f.fine("all quotas have room for the targets")
}

// within checks the growth of a workload against one quota.
func within(q *corev1.ResourceQuota, id workload.Identity, growth recommender.Size, f *findings) {
	for _, name := range slices.Sorted(maps.Keys(q.Status.Hard)) {
		counted, ok := constraint.CountedBy(name)
		if !ok {
			continue
		}
		hard, used, known := counted.State(q, name)
		if more := counted.Of(growth); known && more > 0 && more > hard-used {
			f.add(Warning, "kubectl edit resourcequota "+q.Name+" --namespace "+q.Namespace, "quota %s in namespace %s has %s left for %s, but %s needs %s more for its targets",
				q.Name, q.Namespace, recommender.Format(counted.Resource, max(0, hard-used)), name, id, recommender.Format(counted.Resource, more))
		}
	}
}

// growths returns the additional requests and limits that the running pods of each workload need for their targets.
func (s *Seen) growths() map[workload.Identity]recommender.Size {
	recs := map[workload.Identity]*v1alpha1.AttuneRecommendation{}
	for _, rec := range s.Recommendations.all() {
		if rec.Spec.Mode != v1alpha1.UpdateObserve {
			recs[workload.IdentityOf(rec)] = rec
		}
	}
	sums := map[workload.Identity]recommender.Size{}
	for _, pod := range s.Neighbours.Pods.all() {
		id, owned := workload.OwnerOf(pod, pod.Namespace, nil)
		rec := recs[id]
		if !owned || rec == nil || !podview.Running(pod) {
			continue
		}
		sums[id] = podview.Combine(sums[id], needs(pod, rec), answers.AddSaved)
	}
	return sums
}

// needs returns the additional requests and limits that one pod needs for the targets of its containers. Blocked
// resources do not grow. A decrease does not offset growth, because it frees nothing until it is done.
func needs(pod *corev1.Pod, rec *v1alpha1.AttuneRecommendation) (sum recommender.Size) {
	has := podview.ByName(podview.Read(pod))
	for i := range rec.Spec.Containers {
		t := &rec.Spec.Containers[i]
		now, there := has[t.Name]
		if !there {
			continue
		}
		more := podview.Combine(podview.FromResources(t.Target), now.Size, func(target, has recommender.Amount) recommender.Amount {
			return max(0, target-has)
		})
		for _, r := range recommender.Resources {
			if resize.HeldFor(t.Holds, r) {
				more[r] = recommender.Allocation{}
			}
		}
		sum = podview.Combine(sum, more, answers.AddSaved)
	}
	return sum
}

// bridged is the prefix of the flag that makes the controller publish VerticalPodAutoscalers.
const bridged = "--bridge-vpa-role="

// published checks that the operator's own VerticalPodAutoscalers exist only if the bridge is on. With the bridge off
// it only reports leftovers.
func published(seen *Seen, f *findings) {
	vpas := seen.Neighbours.VPAs
	if seen.Installed.Deployments.Err != nil || vpas.Err != nil && !meta.IsNoMatchError(vpas.Err) {
		return // other checks report these errors
	}
	var ours []*unstructured.Unstructured
	taken := 0
	for _, vpa := range vpas.all() {
		switch {
		case autoscale.Ours(vpa):
			ours = append(ours, vpa)
		case vpa.GetLabels()[autoscale.ManagedByLabel] == autoscale.ManagedBy:
			taken++
		}
	}
	on := seen.bridges()
	switch {
	case on && meta.IsNoMatchError(vpas.Err):
		f.add(Warning, "kubectl apply --filename https://raw.githubusercontent.com/kubernetes/autoscaler/master/vertical-pod-autoscaler/deploy/vpa-v1-crd-gen.yaml",
			"bridge.vpa is true, but VerticalPodAutoscalers are not installed: attune publishes none until their CustomResourceDefinition exists")
	case on && f.unreadable("MutatingWebhookConfigurations", seen.Admission.Mutating.Err):
	case on && seen.vpaInstalled():
		f.add(Warning, "kubectl delete mutatingwebhookconfiguration "+autoscale.VPAWebhook, "bridge.vpa is true, but attune publishes no VerticalPodAutoscalers, because VPA's admission controller is registered (%s) and "+
			"would act on them: set bridge.vpa to false, or uninstall VPA and then delete the registration, which uninstalling leaves behind", autoscale.VPAWebhook)
	case on:
		f.add(OK, "", "attune publishes recommendations to other programs as %d VerticalPodAutoscalers%s", len(ours), in(seen.Namespace))
	case len(ours) > 0:
		command, note := deleteCommand(ours, taken)
		f.add(Warning, command, "bridge.vpa is not true, but %d VerticalPodAutoscalers of attune remain%s, and their recommendations are out of date%s",
			len(ours), in(seen.Namespace), note)
	}
}

// mostNamed limits the objects that a command names.
const mostNamed = 20

// deleteCommand returns the command that deletes the leftovers, and a note. If users took over some objects, the command
// names the others: an object that was taken over may still have the label, so a selector would match it.
func deleteCommand(ours []*unstructured.Unstructured, taken int) (command, note string) {
	const verb = "kubectl delete verticalpodautoscalers"
	if taken == 0 {
		return verb + " --all-namespaces --selector " + autoscale.ManagedByLabel + "=" + autoscale.ManagedBy, ""
	}
	note = fmt.Sprintf("; the command does not delete %d with the same label that users took over", taken)
	slices.SortFunc(ours, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
	})
	if len(ours) > mostNamed {
		ours = ours[:mostNamed]
		note += fmt.Sprintf("; the command deletes %d of them", mostNamed)
	}
	for i, vpa := range ours {
		if i == 0 || vpa.GetNamespace() != ours[i-1].GetNamespace() {
			command += " && " + verb + " --namespace " + vpa.GetNamespace()
		}
		command += " " + vpa.GetName()
	}
	return strings.TrimPrefix(command, " && "), note
}

// bridges reports whether a Deployment of the operator publishes VerticalPodAutoscalers.
func (s *Seen) bridges() bool {
	return slices.ContainsFunc(s.arguments(), func(arg string) bool { return strings.HasPrefix(arg, bridged) })
}

// vpaInstalled reports whether VPA's admission controller is registered.
func (s *Seen) vpaInstalled() bool {
	return slices.ContainsFunc(s.Admission.Mutating.Value, func(c admissionv1.MutatingWebhookConfiguration) bool { return c.Name == autoscale.VPAWebhook })
}
