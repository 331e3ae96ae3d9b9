package validation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/clip"
	"attune.io/attune/internal/lookup"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/ports"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
)

// Path is the URL path of the webhook.
const Path = "/validate"

// Handler answers admission reviews of attune's own objects. It is safe for concurrent use. New creates it.
type Handler struct {
	// Reader reads the two kinds of defaults. A cache is sufficient: if the verdict was based on slightly stale
	// defaults, the policy loop validates the object again.
	Reader client.Reader
	// Decoder knows attune's types.
	Decoder admission.Decoder
	// Operator is what the installation of attune allows.
	Operator policy.Operator
}

// New returns the handler of HTTP requests.
func New(scheme *runtime.Scheme, reader client.Reader, operator policy.Operator) http.Handler {
	reviews := &admission.Webhook{Handler: &Handler{
		Reader:   reader,
		Decoder:  admission.NewDecoder(scheme),
		Operator: operator,
	}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(reviews, w, r) })
}

const (
	// maxBody limits the body of a review, in bytes. The limit of webhook/server applies first.
	maxBody = 4 << 20
	// mostNamed is longer than the UID, version and kind of any review, in bytes: an answer repeats them.
	mostNamed = 128
)

// serve answers a review. controller-runtime's own handler repeats an unreadable body, without limit, in its answer
// and in the log.
func serve(reviews *admission.Webhook, w http.ResponseWriter, r *http.Request) {
	body, err := ports.Body(w, r, maxBody)
	var review admissionv1.AdmissionReview
	if err == nil {
		err = json.Unmarshal(body, &review)
	}
	if err == nil && (review.Request == nil || max(len(review.Request.UID), len(review.APIVersion), len(review.Kind)) > mostNamed) {
		err = errors.New("the body is not an AdmissionReview with a request")
	}
	if err != nil {
		http.Error(w, clip.Marked(err.Error(), mostOfError), http.StatusBadRequest)
		return
	}
	response := reviews.Handle(r.Context(), admission.Request{AdmissionRequest: *review.Request})
	w.Header().Set("Content-Type", "application/json")
	// An error means that the API server closed the connection.
	_ = json.NewEncoder(w).Encode(admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: &response.AdmissionResponse})
}

// Handle validates an object that is created or whose spec changes. It allows every other change, even on an object
// that is invalid by now: an invalid object must not keep its labels, and above all its finalizers, forever. It
// always allows deletion. If the defaults cannot be read, the answer is an error and the client has to try again. It
// never rejects a kind that this webhook does not know. In a create request, the object may lack its namespace, which
// the request has.
func (h *Handler) Handle(ctx context.Context, request admission.Request) admission.Response {
	object := newObject(request.Kind.Kind)
	if object == nil || request.Operation == admissionv1.Delete {
		return admission.Allowed("")
	}
	if err := h.read(request.Object, object); err != nil {
		return errored(http.StatusBadRequest, fmt.Errorf("reading the %s: %w", request.Kind.Kind, err))
	}
	if object.GetDeletionTimestamp() != nil || h.sameSpec(request, object) {
		return admission.Allowed("")
	}
	if err := bounded(specOf(object)); err != nil {
		return errored(http.StatusBadRequest, err)
	}
	if len(request.Namespace) > validation.DNS1123LabelMaxLength {
		return errored(http.StatusBadRequest, errors.New("the name of the namespace is longer than 63 characters"))
	}
	object.SetNamespace(request.Namespace)
	env, err := h.env(ctx, object)
	if err != nil {
		return errored(http.StatusInternalServerError, fmt.Errorf("reading the defaults, try again: %w", err))
	}
	env.Stored = request.Operation == admissionv1.Update
	return answer(Validate(object, env))
}

// mostOfError limits an error in an answer, in bytes.
const mostOfError = 1 << 10

// errored is the answer to a review that could not be validated. Errors of decoders quote the input.
func errored(code int32, err error) admission.Response {
	return admission.Errored(code, errors.New(clip.Marked(err.Error(), mostOfError)))
}

// read decodes an object, after a check that none of its quantities takes long to parse: the caller may not be an API
// server, whose schema limits them.
func (h *Handler) read(raw runtime.RawExtension, into client.Object) error {
	if err := workload.CheckQuantities(raw.Raw); err != nil {
		return err
	}
	if err := h.Decoder.DecodeRaw(raw, into); err != nil {
		return errors.New(clip.Marked(err.Error(), mostOfError))
	}
	return nil
}

// validated are the kinds that are validated.
var validated = map[string]client.Object{
	"AttunePolicy": &v1alpha1.AttunePolicy{}, "AttuneClusterPolicy": &v1alpha1.AttuneClusterPolicy{},
	"AttuneDefaults": &v1alpha1.AttuneDefaults{}, "AttuneNamespaceDefaults": &v1alpha1.AttuneNamespaceDefaults{},
}

// newObject is an empty object of a kind that is validated, or nil.
func newObject(kind string) client.Object {
	if of := validated[kind]; of != nil {
		return of.DeepCopyObject().(client.Object)
	}
	return nil
}

// sameSpec reports whether an update does not change the spec. An old object that cannot be read counts as different.
func (h *Handler) sameSpec(request admission.Request, object client.Object) bool {
	if request.Operation != admissionv1.Update {
		return false
	}
	old := newObject(request.Kind.Kind)
	if err := h.read(request.OldObject, old); err != nil {
		return false
	}
	return equality.Semantic.DeepEqual(specOf(old), specOf(object))
}

// specOf returns the spec of an object that is validated.
func specOf(object client.Object) any {
	return reflect.ValueOf(object).Elem().FieldByName("Spec").Interface()
}

// env reads the layers below an object. AttuneDefaults are the lowest layer and have none.
func (h *Handler) env(ctx context.Context, object client.Object) (Env, error) {
	env, name := Env{Operator: h.Operator}, v1alpha1.DefaultsName
	if _, lowest := object.(*v1alpha1.AttuneDefaults); lowest {
		return env, nil
	}
	var err error
	env.Cluster, err = lookup.Found(ctx, h.Reader, client.ObjectKey{Name: name}, &v1alpha1.AttuneDefaults{})
	if err == nil && object.GetNamespace() != "" { // a cluster policy has none
		env.Namespace, err = lookup.Found(ctx, h.Reader, client.ObjectKey{Namespace: object.GetNamespace(), Name: name}, &v1alpha1.AttuneNamespaceDefaults{})
	}
	return env, err
}

// answer turns a verdict into a response: a rejection if there are denied problems, and the warnings in any case.
func answer(v Verdict) admission.Response {
	response := admission.Allowed("")
	if len(v.Denied) > 0 {
		response = denied(v.Denied)
	}
	// kubectl shows warnings to the user who applies the object.
	_, told := policy.Summary(v.Warnings)
	response.Warnings = append(podview.Map(told, func(p policy.Problem) string { return "attune sizes nothing until this is fixed: " + p.Sentence }), v.Remarks...)
	return response
}

// denied is a rejection in the form that the API server uses for its own rules: reason Invalid, with a cause for each
// field, so that clients can show it at the field.
func denied(problems []policy.Problem) admission.Response {
	message, problems := policy.Summary(problems)
	causes := make([]metav1.StatusCause, len(problems))
	for i, problem := range problems {
		causes[i] = metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: "spec." + problem.Fields[0], Message: problem.Sentence}
	}
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{
		Result: &metav1.Status{
			Status:  metav1.StatusFailure,
			Code:    http.StatusUnprocessableEntity,
			Reason:  metav1.StatusReasonInvalid,
			Message: message,
			Details: &metav1.StatusDetails{Causes: causes},
		},
	}}
}
