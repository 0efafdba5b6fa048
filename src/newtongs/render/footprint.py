"""What a projected Gaussian is, stated once for every renderer with true covariances.

The numbers are those of gsplat 1.5, so that pictures from either can be compared. The original 3DGS
code differs in one: it caps alpha at 0.99.
"""

EPS2D = 0.3  # square pixels added to the projected variances: a low-pass of about a pixel
ALPHA_MIN = 1 / 255  # weaker contributions are dropped
ALPHA_CAP = 0.999
T_MIN = 1e-4  # transmittance: the Gaussian that would leave no more ends its pixel, undrawn
NEAR = 0.01  # least depth
VIEW_MARGIN = 0.3  # of half the picture: how far outside the Jacobian follows a Gaussian
