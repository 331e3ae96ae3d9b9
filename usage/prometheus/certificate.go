package prometheus

import (
	"crypto/tls"
	"errors"
)

// isCertificate recognises a server certificate that does not verify.
func isCertificate(err error) bool {
	var verification *tls.CertificateVerificationError
	return errors.As(err, &verification)
}
