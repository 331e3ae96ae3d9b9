package doctor

import (
	"crypto/x509"
	"encoding/pem"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"
)

// Names of attune's webhooks within their configurations.
const (
	podWebhook      = "pods.attune.io"
	settingsWebhook = "settings.attune.io"
)

// hook is one webhook of a configuration.
type hook struct {
	// of and configuration identify the configuration, such as MutatingWebhookConfiguration attune.
	of, configuration string
	name              string
	client            admissionv1.WebhookClientConfig
	rules             []admissionv1.RuleWithOperations
}

// hooks returns the webhooks of all configurations.
func (a *Admission) hooks() (all []hook) {
	for _, c := range a.Mutating.all() {
		for j := range c.Webhooks {
			w := &c.Webhooks[j]
			all = append(all, hook{"MutatingWebhookConfiguration", c.Name, w.Name, w.ClientConfig, w.Rules})
		}
	}
	for _, c := range a.Validating.all() {
		for j := range c.Webhooks {
			w := &c.Webhooks[j]
			all = append(all, hook{"ValidatingWebhookConfiguration", c.Name, w.Name, w.ClientConfig, w.Rules})
		}
	}
	return all
}

// own returns attune's webhooks.
func (a *Admission) own() []hook {
	return slices.DeleteFunc(a.hooks(), func(h hook) bool { return h.name != podWebhook && h.name != settingsWebhook })
}

// unreadable records the webhook configurations that could not be read, and reports whether there are any.
func (a *Admission) unreadable(f *findings) bool {
	mutating := f.unreadable("MutatingWebhookConfigurations", a.Mutating.Err)
	return f.unreadable("ValidatingWebhookConfigurations", a.Validating.Err) || mutating
}

// webhook checks that attune's webhooks are configured.
func webhook(seen *Seen, f *findings) {
	if seen.Admission.unreadable(f) {
		return
	}
	own := seen.Admission.own()
	for name, sentence := range map[string]string{
		podWebhook:      "no MutatingWebhookConfiguration has the webhook pods.attune.io: new pods are not sized",
		settingsWebhook: "no ValidatingWebhookConfiguration has the webhook settings.attune.io: invalid policies are not rejected",
	} {
		if !slices.ContainsFunc(own, func(h hook) bool { return h.name == name }) {
			f.add(Problem, upgrade(seen.Scope), "%s", sentence)
		}
	}
	slices.SortFunc(f.of, func(a, b Result) int { return strings.Compare(a.Sentence, b.Sentence) })
	f.fine("the webhooks pods.attune.io and settings.attune.io are configured")
}

// soon is how long before its expiry a certificate should have been renewed.
const soon = 14 * 24 * time.Hour

// certificate checks the CAs by which the API server trusts the webhooks.
func certificate(seen *Seen, f *findings) {
	if seen.Admission.unreadable(f) {
		return
	}
	restart := "kubectl rollout restart deployment --selector " + Selector + "=" + SelectorValue + " --namespace " + seen.Scope.Operator
	own := seen.Admission.own()
	if len(own) == 0 {
		f.add(Unknown, "", "no certificate to check: no webhook of attune is configured")
		return
	}
	var first time.Time
	for _, h := range own {
		until, found := validUntil(h.client.CABundle)
		switch left := until.Sub(seen.Now); {
		case !found:
			f.add(Problem, restart, "the CA bundle of webhook %s in %s %s has no certificate: the API server cannot call the webhook", h.name, h.of, h.configuration)
		case left <= 0:
			f.add(Problem, restart, "the CA bundle of webhook %s in %s %s expired at %s: the API server cannot call the webhook", h.name, h.of, h.configuration, until.UTC().Format(time.RFC3339))
		case left < soon:
			f.add(Warning, restart, "the CA bundle of webhook %s in %s %s expires at %s", h.name, h.of, h.configuration, until.UTC().Format(time.RFC3339))
		}
		if first.IsZero() || until.Before(first) {
			first = until
		}
	}
	f.fine("the CA bundles of the webhooks are valid until %s", first.UTC().Format(time.RFC3339))
}

// validUntil returns the latest expiry of a bundle's certificates; false if none can be parsed.
func validUntil(bundle []byte) (until time.Time, found bool) {
	for {
		block, rest := pem.Decode(bundle)
		if block == nil {
			return until, found
		}
		bundle = rest
		certificate, err := x509.ParseCertificate(block.Bytes)
		if block.Type != "CERTIFICATE" || err != nil {
			continue
		}
		if !found || certificate.NotAfter.After(until) {
			until, found = certificate.NotAfter, true
		}
	}
}

// endpoints checks that the webhooks' Service has ready endpoints.
func endpoints(seen *Seen, f *findings) {
	unread := seen.Admission.unreadable(f)
	if f.unreadable("EndpointSlices in namespace "+seen.Scope.Operator, seen.Installed.Slices.Err) || unread {
		return
	}
	asked := map[string]bool{}
	for _, h := range seen.Admission.own() {
		service := h.client.Service
		if service == nil || asked[service.Name] {
			continue
		}
		asked[service.Name] = true
		if service.Namespace != seen.Scope.Operator {
			f.add(Unknown, "kubectl attune doctor --operator-namespace "+service.Namespace, "the webhooks' Service %s is in namespace %s, which was not checked", service.Name, service.Namespace)
			continue
		}
		if ready(seen.Installed.Slices, service.Name) == 0 {
			f.add(Problem, "kubectl get pods --selector "+Selector+"="+SelectorValue+" --namespace "+service.Namespace,
				"Service %s has no ready endpoint: new pods are not sized, and policies cannot be changed", service.Name)
		}
	}
	if len(asked) == 0 {
		f.add(Unknown, "", "no Service to check: no webhook of attune is configured")
	}
	f.fine("the webhooks' Service has ready endpoints")
}

// ready counts the ready addresses of a Service. The API defines an address without the condition as ready.
func ready(slices Read[discoveryv1.EndpointSlice], service string) (n int) {
	for _, slice := range slices.all() {
		if slice.Labels[discoveryv1.LabelServiceName] != service {
			continue
		}
		for _, e := range slice.Endpoints {
			if ptr.Deref(e.Conditions.Ready, true) {
				n += len(e.Addresses)
			}
		}
	}
	return n
}

// engines finds webhooks and admission policies that match pods/resize and may reject a resize. A rule for all
// resources ("*") does not match subresources, but "*/*" does.
func engines(seen *Seen, f *findings) {
	seen.Admission.unreadable(f)
	f.unreadable("ValidatingAdmissionPolicies", seen.Admission.Policies.Err)
	for _, h := range seen.Admission.hooks() {
		if slices.ContainsFunc(h.rules, judgesResizes) {
			f.add(Warning, "kubectl get "+strings.ToLower(h.of)+" "+h.configuration+" -o yaml", "webhook %s of %s %s matches pods/resize, and may reject or change resizes", h.name, h.of, h.configuration)
		}
	}
	for _, p := range seen.Admission.Policies.all() {
		if p.Spec.MatchConstraints == nil {
			continue
		}
		if slices.ContainsFunc(p.Spec.MatchConstraints.ResourceRules, func(r admissionv1.NamedRuleWithOperations) bool { return judgesResizes(r.RuleWithOperations) }) {
			f.add(Warning, "kubectl get validatingadmissionpolicy "+p.Name+" -o yaml", "ValidatingAdmissionPolicy %s matches pods/resize, and may reject resizes", p.Name)
		}
	}
	f.fine("no policy engine matches pods/resize")
}

// judgesResizes reports whether a rule matches updates of pods/resize.
func judgesResizes(r admissionv1.RuleWithOperations) bool {
	any := func(of []string, values ...string) bool {
		return slices.ContainsFunc(of, func(s string) bool { return slices.Contains(values, s) })
	}
	update := slices.Contains(r.Operations, admissionv1.Update) || slices.Contains(r.Operations, admissionv1.OperationAll)
	return update && any(r.APIGroups, "", "*") && any(r.APIVersions, "v1", "*") && any(r.Resources, "pods/resize", "pods/*", "*/resize", "*/*")
}
