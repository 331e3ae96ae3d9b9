package doctor

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"attune.io/attune/internal/autoscale"
)

// bridged is the beginning of the flag by which the controller publishes VerticalPodAutoscalers.
const bridged = "--bridge-vpa-role="

// published looks whether the operator's own VerticalPodAutoscalers are there where they are asked for, and nowhere else. Where
// the bridge is off there is a result only for what was left behind.
func published(seen *Seen, f *findings) {
	vpas := seen.Neighbours.VPAs
	if seen.Installed.Deployments.Err != nil || vpas.Err != nil && !meta.IsNoMatchError(vpas.Err) {
		return // said by the checks of these
	}
	ours := 0
	for i := range vpas.Value {
		if autoscale.Ours(&vpas.Value[i]) {
			ours++
		}
	}
	on := seen.bridges()
	switch {
	case on && meta.IsNoMatchError(vpas.Err):
		f.add(Warning, "kubectl apply --filename https://raw.githubusercontent.com/kubernetes/autoscaler/master/vertical-pod-autoscaler/deploy/vpa-v1-crd-gen.yaml",
			"bridge.vpa is true, and the cluster has no VerticalPodAutoscalers: nothing is published until their CustomResourceDefinition is there")
	case on && f.unreadable("MutatingWebhookConfigurations", seen.Admission.Mutating.Err):
	case on && seen.besideVPA():
		f.add(Warning, "kubectl delete mutatingwebhookconfiguration "+autoscale.VPAWebhook, "bridge.vpa is true, and VPA's admission controller is registered (%s), which would act on what is "+
			"published: nothing is. Set bridge.vpa to false, or uninstall VPA; the registration stays behind then", autoscale.VPAWebhook)
	case on:
		f.add(OK, "", "%d VerticalPodAutoscalers tell other programs of recommendations in %s", ours, seen.named())
	case ours > 0:
		f.add(Warning, "kubectl delete verticalpodautoscalers --all-namespaces --selector "+autoscale.ManagedByLabel+"="+autoscale.ManagedBy,
			"bridge.vpa is not true, and %d VerticalPodAutoscalers of attune's are left in %s, of which nobody keeps the recommendations up to date", ours, seen.named())
	}
}

// bridges reports whether a Deployment of the operator publishes VerticalPodAutoscalers.
func (s *Seen) bridges() bool {
	for i := range s.Installed.Deployments.Value {
		for _, c := range s.Installed.Deployments.Value[i].Spec.Template.Spec.Containers {
			if slices.ContainsFunc(c.Args, func(arg string) bool { return strings.HasPrefix(arg, bridged) }) {
				return true
			}
		}
	}
	return false
}

// besideVPA reports whether VPA's admission controller is registered.
func (s *Seen) besideVPA() bool {
	for i := range s.Admission.Mutating.Value {
		if s.Admission.Mutating.Value[i].Name == autoscale.VPAWebhook {
			return true
		}
	}
	return false
}
