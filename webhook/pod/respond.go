package pod

import "encoding/base64"

// respond writes the AdmissionReview that answers another one, with the same API version. The reason goes into the
// API server's audit log; the creator of the pod does not see it.
func respond(in *review, d *Decision) []byte {
	b := make([]byte, 0, 512+2*len(d.Patch))
	b = append(b, `{"apiVersion":`...)
	b = appendString(b, in.APIVersion)
	b = append(b, `,"kind":`...)
	b = appendString(b, in.Kind)
	b = append(b, `,"response":{"allowed":true,"uid":`...)
	b = appendString(b, in.Request.UID)
	b = append(b, `,"auditAnnotations":{"decision":`...)
	b = appendString(b, string(d.Reason))
	b = append(b, '}')
	if len(d.Patch) > 0 {
		b = append(b, `,"patchType":"JSONPatch","patch":"`...)
		b = base64.StdEncoding.AppendEncode(b, d.Patch)
		b = append(b, '"')
	}
	return append(b, "}}"...)
}
