package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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
	var ours []*unstructured.Unstructured
	taken := 0
	for vpa := range vpas.all() {
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
			"bridge.vpa is true, and the cluster has no VerticalPodAutoscalers: nothing is published until their CustomResourceDefinition is there")
	case on && f.unreadable("MutatingWebhookConfigurations", seen.Admission.Mutating.Err):
	case on && seen.besideVPA():
		f.add(Warning, "kubectl delete mutatingwebhookconfiguration "+autoscale.VPAWebhook, "bridge.vpa is true, and VPA's admission controller is registered (%s), which would act on what is "+
			"published: nothing is. Set bridge.vpa to false, or uninstall VPA; the registration stays behind then", autoscale.VPAWebhook)
	case on:
		f.add(OK, "", "%d VerticalPodAutoscalers tell other programs of recommendations in %s", len(ours), seen.named())
	case len(ours) > 0:
		command, note := deleting(ours, taken)
		f.add(Warning, command, "bridge.vpa is not true, and %d VerticalPodAutoscalers of attune's are left in %s, of which nobody keeps the recommendations up to date%s",
			len(ours), seen.named(), note)
	}
}

// mostNamed is how many objects a command names.
const mostNamed = 20

// deleting returns the command that deletes what is left, and what is to be said of it. An object that somebody has taken over
// may have the label still, so that a selector would find it.
func deleting(ours []*unstructured.Unstructured, taken int) (command, note string) {
	const verb = "kubectl delete verticalpodautoscalers"
	if taken == 0 {
		return verb + " --all-namespaces --selector " + autoscale.ManagedByLabel + "=" + autoscale.ManagedBy, ""
	}
	note = fmt.Sprintf("; %d with the same label were taken over by somebody, and are left alone", taken)
	slices.SortFunc(ours, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
	})
	if len(ours) > mostNamed {
		ours = ours[:mostNamed]
		note += fmt.Sprintf("; the command deletes %d of attune's", mostNamed)
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
	for d := range s.Installed.Deployments.all() {
		for _, c := range d.Spec.Template.Spec.Containers {
			if slices.ContainsFunc(c.Args, func(arg string) bool { return strings.HasPrefix(arg, bridged) }) {
				return true
			}
		}
	}
	return false
}

// besideVPA reports whether VPA's admission controller is registered.
func (s *Seen) besideVPA() bool {
	return slices.ContainsFunc(s.Admission.Mutating.Value, func(c admissionv1.MutatingWebhookConfiguration) bool { return c.Name == autoscale.VPAWebhook })
}
